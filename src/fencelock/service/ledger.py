"""What this replica knows of the leases and the waiting tickets of each principal.

A replica needs none of it to be right: limits and the audit log use it. It knows only what has passed
through this replica. It forgets a ticket that was not renewed here for its ttl.
"""

from __future__ import annotations

import time

from fencelock.core.ticket import ADMITTED, GONE, WAITING
from fencelock.engines.http.wire import (
    Answer,
    AnyAct,
    Enter,
    Leave,
    Park,
    Renew,
    WireStanding,
    WireTicket,
)
from fencelock.service.audit import Audit
from fencelock.service.counters import Counters
from fencelock.service.principals import Principal
from fencelock.service.problems import Refused

Lease = tuple[str, str, float, Principal]
"""A lease that this replica has seen granted: name, fence, deadline, who got it. A plain tuple is quick."""


class Usage:
    """What one principal uses. Its tickets are found by their ids."""

    __slots__ = ("credit", "filled", "leases", "parks", "waits")

    def __init__(self, credit: float) -> None:
        self.leases: dict[str, Lease] = {}
        self.waits: dict[str, float] = {}
        """Until when each waiting ticket lives unless it is renewed."""
        self.parks = 0
        """Requests that wait for a wake-up."""
        self.credit = credit
        """How many requests it may send now. `filled` is when it was last raised."""
        self.filled = time.monotonic()


class Ledger:
    """The usage of all principals."""

    def __init__(self, audit: Audit, counters: Counters, credit: float) -> None:
        self.audit = audit
        self._counters = counters
        self.waiting = 0
        """Waiting tickets in all."""
        self._credit = credit
        self._usages: dict[str, Usage] = {}

    def usage(self, principal: Principal) -> Usage:
        """The usage of a principal. There are only as many as there are names in the file of tokens."""
        try:
            return self._usages[principal.name]
        except KeyError:
            usage = self._usages[principal.name] = Usage(self._credit)
            return usage

    def note(self, act: AnyAct, answer: Answer, principal: Principal, usage: Usage) -> None:
        """Note what an act has changed."""
        if isinstance(act, Leave):
            self._left(act.ticket, answer, principal, usage)
        elif isinstance(act, Enter | Renew):
            now, entered = time.monotonic(), isinstance(act, Enter)
            for ticket, standing in zip(act.tickets, answer.standings or (), strict=False):
                if standing is not None:
                    self._stands(usage, ticket, standing, now, principal, entered)
        elif isinstance(act, Park):
            for standing in answer.standings or ():
                if standing is not None:
                    self.woken(act.ticket, standing, principal)

    def refused(self, principal: Principal, refusal: Refused) -> None:
        """Note a request that the service itself has refused: once, wherever it is caught."""
        if refusal.noted:
            return
        refusal.noted = True
        self.audit.refused(principal, refusal.kind, refusal.name)
        if refusal.kind == "unauthorized":
            self._counters.auth_failed()
        elif refusal.limit:
            self._counters.limited(refusal.limit)

    def woken(self, ticket: WireTicket, standing: WireStanding, principal: Principal) -> None:
        """Note the standing that came with a wake-up."""
        now = time.monotonic()
        self._stands(self.usage(principal), ticket, standing, now, principal, True)

    def _stands(
        self,
        usage: Usage,
        ticket: WireTicket,
        standing: WireStanding,
        now: float,
        principal: Principal,
        entered: bool,
    ) -> None:
        id, place = ticket.id, standing.place
        held = usage.leases.get(id)
        if place == ADMITTED:
            waited = bool(usage.waits) and self._wait_no_more(usage, id)
            # The permit of a rate is not renewed: it counts until it ends.
            lasts = 0.0 if ticket.share is None else ticket.share.unpack().lasts
            usage.leases[id] = ticket.name, standing.fence, now + (lasts or ticket.ttl), principal
            # A renewal of an unknown lease means that another replica has granted it.
            if held is None and (entered or waited) and self.audit.enabled:
                self.audit.note("granted", principal, ticket.name, standing.fence)
            return
        if held is not None:
            del usage.leases[id]
            self.audit.note("lost", principal, held[0], held[1])
        if place == WAITING:
            if id not in usage.waits:
                self.waiting += 1
                self.audit.note("waiting", principal, ticket.name, standing.fence)
            usage.waits[id] = now + ticket.ttl
        elif place == GONE:
            self._wait_no_more(usage, id)

    def _left(self, ticket: WireTicket, answer: Answer, principal: Principal, usage: Usage) -> None:
        held = usage.leases.pop(ticket.id, None)
        waited = bool(usage.waits) and self._wait_no_more(usage, ticket.id)
        if not self.audit.enabled:
            return
        if held is not None:
            self.audit.note("released" if answer.done else "lost", principal, held[0], held[1])
        elif answer.done:
            self.audit.note("withdrawn" if waited else "released", principal, ticket.name)

    def _wait_no_more(self, usage: Usage, id: str) -> bool:
        waited = usage.waits.pop(id, None) is not None
        self.waiting -= waited
        return waited

    def sweep(self) -> None:
        """Forget what was not renewed here in time."""
        now = time.monotonic()
        for usage in self._usages.values():
            for id, lease in [each for each in usage.leases.items() if each[1][2] < now]:
                del usage.leases[id]
                name, fence, _, principal = lease
                self.audit.note("lapsed", principal, name, fence)
            for id in [id for id, deadline in usage.waits.items() if deadline < now]:
                self._wait_no_more(usage, id)
