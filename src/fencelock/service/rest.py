"""The face for curl and for other languages: `/v1/locks/…` and `/v1/fences/check`.

A client without our library has no line and no keeper. So its requests are long-polls, and it must renew by
itself. It names its ticket with an Idempotency-Key. docs/service/curl.md shows how to use it.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from aiohttp import web

from fencelock.core.durations import deadline
from fencelock.core.errors import EngineError
from fencelock.core.names import check_name
from fencelock.core.ticket import ALONE, READING, Place, Share
from fencelock.engines.http import wire
from fencelock.engines.http.wire import WireInspection, WireOwner, WireShare, WireTicket, encode
from fencelock.guards import http as guard
from fencelock.guards.lease_like import RemoteLease, holder_of_id
from fencelock.service import forms
from fencelock.service.answers import answer, failure
from fencelock.service.openapi import OTHERS, document
from fencelock.service.operations import Call, Operation
from fencelock.service.problems import Refused, problem
from fencelock.service.waits import KEEP, TIMEOUT, Confirmed, Waits

if TYPE_CHECKING:
    from fencelock.service.app import Service

_LOCK = "/v1/locks/{name}"


def routes(service: Service) -> list[web.RouteDef]:
    """The routes of this face. Waiting requests end when the application shuts down."""
    rest = Rest(service)
    service.on_drain.append(rest.end)
    operations = rest.operations()
    text = encode(document([*operations, *service.live.operations(), *OTHERS]))

    async def describe(request: web.Request) -> web.Response:
        return web.Response(body=text, content_type="application/json")

    made = [operation.route(service) for operation in operations]
    return [*made, web.get("/openapi.json", describe)]


class Rest:
    """Carries out the operations of this face, as acts of the contract."""

    def __init__(self, service: Service) -> None:
        self._acts = service.acts
        self._service = service
        self._waits = Waits(service.acts)

    def operations(self) -> list[Operation]:
        """Everything that this face offers."""
        return [
            Operation(
                "POST",
                f"{_LOCK}/acquire",
                "Hold a lock, or wait for it",
                forms.Acquire,
                {200: forms.Held, 202: forms.Queued},
                self.acquire,
                ("held", "unsafe-engine", "not-json"),
                key="optional",
            ),
            Operation(
                "POST",
                f"{_LOCK}/renew",
                "Extend a lease, or keep a place in the queue",
                forms.RenewLease,
                {200: forms.Held, 202: forms.Queued},
                self.renew,
                ("gone", "not-json"),
                key="required",
            ),
            Operation(
                "POST",
                f"{_LOCK}/release",
                "Release a lock, or leave the queue",
                forms.Release,
                {200: forms.Released},
                self.release,
                ("gone", "not-json"),
                key="required",
            ),
            Operation(
                "GET",
                _LOCK,
                "Who holds a lock, and who waits",
                forms.Show,
                {200: WireInspection},
                self.show,
            ),
            Operation(
                "DELETE",
                _LOCK,
                "Break a lock: take it away from its holder",
                forms.Break,
                {200: forms.Broken},
                self.break_,
                ("stale-fence",),
            ),
            Operation(
                "GET",
                "/v1/locks",
                "The locks that are in use",
                forms.List,
                {200: forms.Listing},
                self.list,
            ),
            Operation(
                "POST",
                "/v1/fences/check",
                "Whether a ticket with this fence holds the lock now",
                forms.CheckFence,
                {200: forms.Holds},
                self.check,
                ("stale-fence", "not-json"),
            ),
            Operation(
                "GET",
                "/v1/diagnosis",
                "What a lock on the engine is good for: as `fencelock doctor` says",
                forms.Diagnose,
                {200: wire.Diagnosis},
                self.diagnose,
            ),
        ]

    async def end(self) -> None:
        """Let the waiting clients ask another replica."""
        await self._waits.end()

    async def acquire(self, call: Call, form: forms.Acquire) -> web.Response:
        ticket = self._ticket(call, form.ttl, form.label, self._share(form))
        act = wire.Enter([ticket], TIMEOUT, if_free=not form.wait, require=form.require)
        key = {forms.KEY: call.key}
        if form.wait:
            found = await self._waits.obtain(act, form.wait, call.principal, lambda: call.is_open)
            return self._queued(ticket, key) if found is None else self._held(ticket, found, key)
        await self._waits.call_off(ticket.id)
        sent = self._acts.io.now()
        (standing,) = (await self._acts.perform(act, call.principal)).standings or [None]
        assert standing is not None, "an engine answers for a ticket that enters alone"
        if standing.place is Place.REFUSED:
            return await self._refused(call)
        if standing.place is Place.WAITING:  # since an earlier request with this key
            return self._queued(ticket, key)
        return self._held(ticket, Confirmed(standing, sent), key)

    async def renew(self, call: Call, form: forms.RenewLease) -> web.Response:
        ticket = self._ticket(call, form.ttl, form.label)
        sent = self._acts.io.now()
        renewed = await self._acts.perform(wire.Renew([ticket], TIMEOUT), call.principal)
        (standing,) = renewed.standings or [None]
        if standing is None:
            raise EngineError("the engine did not answer", outcome="unknown", name=call.name)
        if standing.place is Place.GONE:
            raise _gone(call)
        if standing.place is Place.WAITING:
            return self._queued(ticket)
        return self._held(ticket, Confirmed(standing, sent))

    async def release(self, call: Call, form: forms.Release) -> web.Response:
        ticket = self._ticket(call)
        # First: a request that waits would bring the ticket back.
        await self._waits.call_off(ticket.id)
        done = (await self._acts.perform(wire.Leave(ticket, TIMEOUT), call.principal)).done
        if not done:
            raise _gone(call)
        return answer(forms.Released(call.name))

    async def show(self, call: Call, form: forms.Show) -> web.Response:
        return answer(await self._inspect(call, call.name, form.waiters))

    async def list(self, call: Call, form: forms.List) -> web.Response:
        found = await self._acts.perform(wire.Names(TIMEOUT, form.pattern), call.principal)
        names = found.names or []
        return answer(forms.Listing(names[: form.limit], len(names) > form.limit))

    async def break_(self, call: Call, form: forms.Break) -> web.Response:
        call.principal.require("break", call.name)
        # Two requests to the engine: a holder that comes in between is evicted, too.
        seen = await self._inspect(call, call.name)
        newest = max((int(each.fence) for each in seen.holders), default=0)
        if newest == int(form.fence):
            evicted = await self._acts.perform(wire.Evict(call.name, TIMEOUT), call.principal)
            if evicted.done:
                return answer(forms.Broken(call.name, seen.holders))
            newest = 0
        return _not_held(call.name, form.fence, newest)

    async def check(self, call: Call, form: forms.CheckFence) -> web.Response:
        name = check_name(form.name)
        seen = await self._inspect(call, name)
        for each in seen.holders:
            if int(each.fence) == int(form.fence):
                return answer(forms.Holds(name, each.fence, each.expires_in))
        newest = max((int(each.fence) for each in seen.holders), default=0)
        self._service.watch.refused_write(name, int(form.fence), newest)
        return _not_held(name, form.fence, newest)

    async def diagnose(self, call: Call, form: forms.Diagnose) -> web.Response:
        found = await self._acts.perform(wire.Diagnose(form.timeout), call.principal)
        assert found.diagnosis is not None, "a diagnosis is answered by one"
        return answer(found.diagnosis)

    # --- parts

    def _ticket(
        self, call: Call, ttl: float = KEEP, label: str = "", share: Share = ALONE
    ) -> WireTicket:
        if not label.isprintable():
            raise ValueError("a label must be printable")
        owner = WireOwner(call.request.remote or "unknown", 0, label or call.principal.name)
        shared = WireShare(*share) if share.group else None
        return WireTicket(call.name, call.id, ttl, owner, shared)

    @staticmethod
    def _share(form: forms.Acquire) -> Share:
        if form.read and form.permits is not None:
            raise ValueError("a lock is shared by readers, or has permits, but not both")
        if not form.read and form.permits is None:
            return ALONE
        return READING if form.permits is None else Share.of(form.permits)

    async def _inspect(self, call: Call, name: str, limit: int = 0) -> WireInspection:
        seen = (await self._acts.perform(wire.Inspect(name, TIMEOUT, limit), call.principal)).seen
        assert seen is not None, "an inspection is answered by what was seen"
        return seen

    def _held(
        self, ticket: WireTicket, found: Confirmed, headers: dict[str, str] | None = None
    ) -> web.Response:
        standing = found.standing
        left = max(0.0, deadline(found.sent, ticket.ttl) - self._acts.io.now())
        lease = RemoteLease(ticket.name, int(standing.fence), holder_of_id(ticket.id))
        body = forms.Held(ticket.name, standing.fence, left, standing.abandoned)
        return answer(body, 200, {**guard.headers(lease), **(headers or {})})

    def _queued(self, ticket: WireTicket, headers: dict[str, str] | None = None) -> web.Response:
        kept = min(ticket.ttl, KEEP)
        response = answer(forms.Queued(ticket.name, kept), 202, headers)
        if self._service.draining:
            response.force_close()  # the next request goes to another replica
        return response

    async def _refused(self, call: Call) -> web.Response:
        """Say who holds the lock, if the caller may know it."""
        holder = None
        if call.principal.may("read", call.name):
            with suppress(Refused, EngineError):  # the answer is 409 all the same
                holders = (await self._inspect(call, call.name)).holders
                holder = holders[0] if holders else None
        detail = "somebody else holds it, or waits for it: ask again later, or with `wait`"
        return failure(problem("held", detail, name=call.name, holder=holder))


def _gone(call: Call) -> Refused:
    return Refused(
        "gone",
        f"{call.name!r}: there is no lease with this key: it has expired, was broken or released, or "
        "was never acquired. Stop working, and acquire with a new key",
    )


def _not_held(name: str, fence: str, newest: int) -> web.Response:
    detail = f"{name!r}: no ticket with the fence {int(fence)} holds it now"
    found = problem("stale-fence", detail, name=name, given=str(int(fence)), newest=str(newest))
    return failure(found)
