"""Carries out at the engine what a client asks for."""

from __future__ import annotations

import asyncio
from typing import NamedTuple

from fencelock.core.errors import UnsafeEngine, Unsupported
from fencelock.core.ticket import RATE, Owner, Place, Ticket
from fencelock.engines.contract import NO_RATES, NO_SHARING, UNSAFE
from fencelock.engines.http.wire import (
    Answer,
    AnyAct,
    Diagnose,
    Enter,
    Evict,
    Inspect,
    Leave,
    Park,
    Ping,
    Recall,
    Remember,
    Renew,
    Unpark,
    WireInspection,
    WireStanding,
    WireTicket,
)
from fencelock.io.contract import IO
from fencelock.service.examination import Examination
from fencelock.service.ledger import Ledger
from fencelock.service.limits import Limits
from fencelock.service.principals import Principal
from fencelock.service.problems import Refused
from fencelock.service.sightings import WatchedEngine


class _Wait(NamedTuple):
    """A wait under way."""

    scope: asyncio.Timeout
    """Ends it when it is told to."""
    ended: asyncio.Event


class Acts:
    """The acts of engines/http/wire.py, for principals that may do them.

    Limits and the audit log are applied here, whatever way an act came: on a line, or as a request.
    """

    def __init__(
        self,
        engine: WatchedEngine,
        io: IO,
        limits: Limits,
        ledger: Ledger,
        examination: Examination,
    ) -> None:
        self.engine = engine
        self.examination = examination
        self.io = io
        self.limits = limits
        self.ledger = ledger
        self.entering: dict[str, asyncio.Future[None] | None] = {}
        """The end of an `Enter` under way, by the ticket's id. What comes next for the ticket waits for it:
        its client waits for the answer no more, and engines expect one request of a ticket at a time.
        None as long as nothing waits."""
        self.waits: dict[str, _Wait] = {}
        """The waits under way, by the id of the ticket. The next request for the ticket may come on another
        line than the one that waits."""
        self._draining = False

    async def perform(self, act: AnyAct, principal: Principal) -> Answer:
        """Carry out an act. Raises what `problem_of` translates."""
        try:
            usage = self.limits.admit(act, principal)
            answer = await self._perform(act, principal)
        except Refused as refusal:
            self.ledger.refused(principal, refusal)
            raise
        self.ledger.note(act, answer, principal, usage)
        return answer

    async def _perform(self, act: AnyAct, principal: Principal) -> Answer:
        engine, limits = self.engine, self.limits
        timeout = 0.0 if isinstance(act, Unpark) else limits.wait(act.timeout)
        match act:
            case Enter():
                return await self._enter(act, principal, timeout)
            case Renew(tickets):
                asked = [self.ticket(each, principal) for each in tickets]
                standings = await engine.renew(asked, timeout=timeout)
                return Answer(standings=[each and WireStanding.pack(each) for each in standings])
            case Leave(ticket, _, departure):
                asking = self.ticket(ticket, principal, any_ttl=True)
                return Answer(done=await engine.leave(asking, timeout=timeout, departure=departure))
            case Park(ticket):
                return await self._park(self.ticket(ticket, principal), principal, timeout)
            case Unpark():
                return Answer(done=True)  # a line knows what is parked
            case Evict(name):
                return await self._evict(name, principal, timeout)
            case Remember(ticket, text, keep):
                self._require_notes()
                asking = self.ticket(ticket, principal)
                done = await engine.remember(asking, text, keep=keep, timeout=timeout)
                return Answer(done=done)
            case Recall(name):
                self._require_notes()
                principal.require("lock", name := limits.check_name(name))
                return Answer(text=await engine.recall(name, timeout=timeout))
            case Inspect(name, _, limit):
                principal.require("read", name := limits.check_name(name))
                seen = await engine.inspect(name, limit=limit, timeout=timeout)
                return Answer(seen=WireInspection.pack(seen))
            case Ping():
                await engine.ping(timeout=timeout)
                return Answer(done=True)
            case Diagnose():
                principal.require_everywhere("admin")
                return Answer(diagnosis=await self.examination.diagnosis(timeout))
        names = await engine.names(act.pattern, timeout=timeout)
        return Answer(names=[name for name in names if principal.may("read", name)])

    def ticket(self, ticket: WireTicket, principal: Principal, any_ttl: bool = False) -> Ticket:
        """The ticket, if this principal may lock its name. The right and the lock are for one spelling."""
        limits = self.limits
        name = limits.check_name(ticket.name) if any_ttl else limits.check_ticket(ticket)
        principal.require("lock", name)
        asked = ticket.unpack()
        return asked if name == asked.name else asked._replace(name=name)

    async def _enter(self, act: Enter, principal: Principal, timeout: float) -> Answer:
        if act.require == "correctness" and self.engine.traits.guarantee != "correctness":
            raise UnsafeEngine(UNSAFE)
        tickets = [self.ticket(each, principal) for each in act.tickets]
        if not self.engine.traits.supports_sharing and any(each.share.group for each in tickets):
            raise Unsupported(NO_SHARING)
        if not self.engine.traits.supports_rates and any(each.share.lasts for each in tickets):
            raise Unsupported(NO_RATES)
        if any(each.share.group.startswith(RATE) and not each.share.lasts for each in tickets):
            raise ValueError(
                f"a group that begins with {RATE!r} goes on with a number of microseconds"
            )
        if len(tickets) == 1:
            if tickets[0].id in self.waits:
                await self.end_wait(tickets[0].id)
            standing = await self.engine.enter(tickets[0], if_free=act.if_free, timeout=timeout)
            return Answer(standings=[WireStanding.pack(standing)])
        if not act.if_free:
            raise ValueError("several tickets can only enter with if_free")
        standings = await self.engine.enter_free(tickets, timeout=timeout)
        return Answer(standings=[WireStanding.pack(each) for each in standings])

    def _require_notes(self) -> None:
        if not self.engine.traits.supports_notes:
            raise Unsupported("the engine behind this service can't store notes")

    async def _evict(self, name: str, principal: Principal, timeout: float) -> Answer:
        principal.require("break", name := self.limits.check_name(name))
        # People will ask whose lease was broken, and by whom.
        seen = await self.engine.inspect(name, limit=0, timeout=timeout)
        fence = seen.holders[0].fence if seen.holders else 0
        by = Owner(principal.address, 0, principal.name)
        done = await self.engine.break_(name, by, fence, timeout=timeout)
        if done:
            self.ledger.audit.note("broke", principal, name, str(fence) if fence else None)
        return Answer(done=done)

    # --- waits

    async def _park(self, ticket: Ticket, principal: Principal, timeout: float) -> Answer:
        """Wait as a request of its own. The ticket may have entered at another replica."""
        began = self.io.now()
        usage = self.limits.admit_park(principal)
        usage.parks += 1
        try:
            await self.end_wait(ticket.id)
            standing = (await self.engine.renew([ticket], timeout=timeout))[0]
            if standing is None or standing.place is not Place.WAITING:
                return Answer(standings=[standing and WireStanding.pack(standing)])
            standing = await self.engine.enter(ticket, if_free=False, timeout=timeout)
            if standing.place is not Place.WAITING:
                return Answer(standings=[WireStanding.pack(standing)])
            left = max(0.0, began + timeout - self.io.now())
            return Answer(standings=[await self.park(ticket, left)])
        finally:
            usage.parks -= 1

    async def park(self, ticket: Ticket, seconds: float) -> WireStanding | None:
        """Wait for the wake-up of a ticket that has entered here; None: look again, perhaps elsewhere.

        After that the ticket has to enter again before the next wait.
        """
        wait = _Wait(asyncio.timeout(0.0 if self._draining else None), asyncio.Event())
        try:
            async with wait.scope:
                self.waits[ticket.id] = wait
                standing = await self.engine.park(ticket, self.io.now() + seconds)
        except TimeoutError:
            if not wait.scope.expired():
                raise
            return None
        finally:
            if self.waits.get(ticket.id) is wait:
                del self.waits[ticket.id]
            self.engine.unpark(ticket)
            wait.ended.set()
        return None if standing is None else WireStanding.pack(standing)

    def drain(self) -> None:
        """End all waits, and let none begin."""
        self._draining = True
        for wait in self.waits.values():
            wait.scope.reschedule(0.0)

    async def end_wait(self, id: str) -> None:
        """End the wait for this ticket, if there is one: its client has asked again, perhaps on a new line.

        The engine keeps one entry for a ticket that waits. Two waits would take it away from each other.
        """
        wait = self.waits.get(id)
        if wait is not None:
            wait.scope.reschedule(0.0)
            await wait.ended.wait()
