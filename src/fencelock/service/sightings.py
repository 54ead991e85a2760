"""What a replica sees of tickets: told to observers, as a library client tells them of its own.

A replica keeps no state that matters, so it knows less than a client does:

- It tells the story of a ticket only if it has seen the beginning. A client that comes from another replica
  with a lease is not counted as a grant here, and its release is not counted as a release.
- If it hears nothing of a ticket until its ttl has passed, the ticket has expired, or its client asks another
  replica now. It can't tell these apart. It forgets the ticket, and tells a `Released` that is `closed`.
- A holder that loses its lease tells nobody, unless it is alive. What the engine no longer knows is `Lost`.
- It does not know how long a caller wants to wait. So a ticket that leaves the queue is a `GaveUp`, and there
  is no `TimedOut`. It can't notice that fences fall either: a ticket may have entered elsewhere, earlier.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import count
from typing import Any

from fencelock.core.ticket import (
    ADMITTED,
    GONE,
    REFUSED,
    WAITING,
    Departure,
    Owner,
    Standing,
    Ticket,
)
from fencelock.engines.contract import Engine
from fencelock.engines.observed import ObservedEngine
from fencelock.observe.audience import Audience
from fencelock.observe.events import (
    Broken,
    EngineRequest,
    GaveUp,
    Granted,
    Lost,
    Queued,
    Refused,
    Released,
    Renewed,
)

_REMEMBERED = 50_000
"""The number of tickets that a replica remembers. Beyond that, it forgets those it knows for longest."""

_GRACE = 1.0
"""A ticket is silent if nothing was heard of it for this many seconds more than its ttl."""


class _Seen:
    """A ticket that waits or holds, as far as this replica knows."""

    __slots__ = ("about", "expires_at", "fence", "granted_at", "since")

    def __init__(self, about: tuple[Any, ...], since: float, expires_at: float) -> None:
        self.about = about
        self.since = since
        self.expires_at = expires_at
        self.granted_at: float | None = None
        self.fence = 0


class WatchedEngine(ObservedEngine):
    """An engine that tells observers of its requests, and of the tickets that it sees."""

    def __init__(self, engine: Engine, audience: Audience, now: Callable[[], float]) -> None:
        super().__init__(engine, audience, now)
        self.parked = 0
        """The number of tickets that wait for their wake-up here."""
        self._audience = audience
        self._seen: dict[str, _Seen] = {}
        self._numbers = count(1)
        audience.attach(self)

    def listening_changed(self) -> None:
        """Other observers than before hear of it now."""
        self._tell = self._audience.teller(EngineRequest)
        self._tell_ticket = self._audience.tell

    def engines(self) -> set[tuple[str, str]]:
        """The kind and the guarantee of the engine."""
        return {(each.label, each.traits.guarantee) for each in self._engine.parts()}

    async def enter(self, ticket: Ticket, *, if_free: bool, timeout: float) -> Standing:
        began = self._now()
        standing = await super().enter(ticket, if_free=if_free, timeout=timeout)
        self._entered(ticket, standing, began)
        return standing

    async def enter_free(self, tickets: Sequence[Ticket], *, timeout: float) -> list[Standing]:
        began = self._now()
        standings = await super().enter_free(tickets, timeout=timeout)
        for ticket, standing in zip(tickets, standings, strict=True):
            self._entered(ticket, standing, began)
        return standings

    async def renew(self, tickets: Sequence[Ticket], *, timeout: float) -> list[Standing | None]:
        began = self._now()
        standings = await super().renew(tickets, timeout=timeout)
        for ticket, standing in zip(tickets, standings, strict=True):
            seen = self._seen.get(ticket.id)
            if standing is not None and seen is not None:
                self._renewed(ticket, seen, standing, began)
        return standings

    async def leave(
        self, ticket: Ticket, *, timeout: float, departure: Departure = Departure.RELEASED
    ) -> bool:
        there = await super().leave(ticket, timeout=timeout, departure=departure)
        seen = self._seen.pop(ticket.id, None)
        if seen is not None:
            late = not there and self._now() > seen.expires_at
            self._ended(seen, lost="expired" if late or departure is Departure.LOST else None)
        return there

    async def park(self, ticket: Ticket, until: float) -> Standing | None:
        self.parked += 1
        try:
            standing = await self._engine.park(ticket, until)
        finally:
            self.parked -= 1
        seen = self._seen.get(ticket.id)
        if seen is not None and standing is not None and standing.place is ADMITTED:
            self._granted(seen, standing)
            self._let_go(ticket, seen)
        return standing

    async def break_(self, name: str, by: Owner, fence: int, *, timeout: float) -> bool:
        """Evict the holders. `fence` is that of the first one, or 0."""
        found = await self.evict(name, timeout=timeout)
        if found:
            self._tell_ticket(Broken, (name, self.label, by, fence))
        return found

    def forget_the_silent(self) -> None:
        """Forget the tickets that were not renewed here within their ttl."""
        silent_since = self._now() - _GRACE
        for id in [id for id, seen in self._seen.items() if seen.expires_at < silent_since]:
            self._ended(self._seen.pop(id), closed=True)

    # --- what the engine's answers mean

    def _entered(self, ticket: Ticket, standing: Standing, began: float) -> None:
        place = standing.place
        seen = self._seen.get(ticket.id)
        if seen is not None:
            seen.expires_at = began + ticket.ttl
        else:
            name, id, ttl, owner, share, _ = ticket
            kind = share.kind if share.group else "lock"
            about = (name, self._engine.label_of(name), kind, owner, next(self._numbers))
            if place is REFUSED:
                self._tell_ticket(Refused, (*about, self._now() - began))
                return
            seen = self._seen[id] = _Seen(about, began, began + ttl)
            if place is WAITING:
                self._tell_ticket(Queued, about)
            if len(self._seen) > _REMEMBERED:
                self._ended(self._seen.pop(next(iter(self._seen))), closed=True)
        if place is ADMITTED:
            self._granted(seen, standing)
            self._let_go(ticket, seen)

    def _let_go(self, ticket: Ticket, seen: _Seen) -> None:
        """The permit of a rate is over for its client once it is granted: nobody renews or releases it."""
        if ticket.share.lasts and self._seen.pop(ticket.id, None) is not None:
            self._ended(seen)

    def _granted(self, seen: _Seen, standing: Standing) -> None:
        if seen.granted_at is None:
            seen.granted_at = now = self._now()
            seen.fence = standing.fence
            self._tell_ticket(
                Granted, (*seen.about, now - seen.since, seen.fence, standing.abandoned)
            )

    def _renewed(self, ticket: Ticket, seen: _Seen, standing: Standing, began: float) -> None:
        if standing.place is GONE:
            if self._seen.pop(ticket.id, None) is not None:  # it may have left meanwhile
                self._ended(seen, lost="evicted")
            return
        margin = seen.expires_at - self._now()
        seen.expires_at = began + ticket.ttl
        if standing.place is ADMITTED:
            if seen.granted_at is not None:
                self._tell_ticket(Renewed, (*seen.about, seen.fence, margin))
            self._granted(seen, standing)

    def _ended(self, seen: _Seen, *, lost: str | None = None, closed: bool = False) -> None:
        now = self._now()
        if seen.granted_at is None:
            self._tell_ticket(GaveUp, (*seen.about, now - seen.since))
            return
        details = (*seen.about, seen.fence, now - seen.granted_at)
        if lost is not None:
            self._tell_ticket(Lost, (*details, lost))
        else:
            self._tell_ticket(Released, (*details, closed))
