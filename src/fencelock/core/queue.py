"""The reference queue: what every engine must do for one name, written as plainly as possible.

The memory engine is this class behind a mutex. The simulator is this class behind a bad network. The
tests compare every other engine with it.

A ticket's life: `enter` puts it at the end of the queue. It waits until all tickets ahead of it are
admitted or gone and it fits beside the holders; then it is admitted. It ends when it leaves, when it is
evicted, or when its ttl has passed since the engine last heard of it. The ticket of a rate ends at a fixed
time after its admission.

The methods take the current time as `now`, in seconds. They never read a clock.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from fencelock.core.admission import fits, room_at
from fencelock.core.ticket import (
    Departure,
    Holder,
    Inspection,
    Place,
    Share,
    Standing,
    Ticket,
    Waiter,
)


@dataclass(slots=True)
class _Entry:
    """A ticket in the queue. Times are moments of the clock that `now` comes from."""

    ticket: Ticket
    fence: int
    joined: float
    expires: float
    admitted_at: float | None = None
    """None while the ticket waits."""

    @property
    def held_alone(self) -> bool:
        return self.admitted_at is not None and not self.ticket.share.group


class TicketQueue:
    """A leased, ordered queue of tickets for one name."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.fence = 0
        self.abandoned = False
        self._entries: dict[str, _Entry] = {}  # by id, in order of arrival, which is order of fence
        self._told: dict[str, Ticket] = {}
        self._watching = ""  # the id of the first waiter of a rate, which knows when to look
        self._note = "", 0.0

    def enter(self, ticket: Ticket, now: float, *, if_free: bool = False) -> Standing:
        """Join the queue. A ticket that is in the queue is renewed instead, so a repeat is harmless.

        With `if_free`, a new ticket joins only if it is admitted at once. Otherwise it is REFUSED.
        """
        self._settle(now, asking=ticket.id)
        entry = self._entries.get(ticket.id)
        if entry is None:
            if if_free and not self._free_for(ticket):
                return Standing(Place.REFUSED, recheck=self._room(ticket.share, now))
            # The clock keeps fences growing when a restart has wiped the last fence from memory.
            self.fence = max(self.fence + 1, int(now * 1e6), ticket.floor + 1)
            entry = self._entries[ticket.id] = _Entry(ticket, self.fence, now, now + ticket.ttl)
        elif entry.admitted_at is None or entry.ticket.share.group:
            # Only a ticket that holds alone may change its share: a writer turns reader. Any other
            # request with another share is an old one that arrived late.
            ticket = ticket._replace(share=entry.ticket.share)
        share = entry.ticket.share
        if entry.admitted_at is None or not (share.group and share.lasts):
            # Never take back promised time: this may be an old request with a shorter ttl. Only a permit of
            # a rate ends when it ends.
            entry.expires = max(entry.expires, now + ticket.ttl)
        entry.ticket = ticket
        self._admit(now, asking=ticket.id)
        return self._standing(entry, now)

    def renew(self, ticket: Ticket, now: float) -> Standing:
        """Extend a ticket that is in the queue. A ticket that is gone stays GONE."""
        self._settle(now, asking=ticket.id)
        return self.enter(ticket, now) if ticket.id in self._entries else Standing(Place.GONE)

    def leave(self, ticket: Ticket, now: float, departure: Departure = Departure.RELEASED) -> bool:
        """Take out this ticket. Returns False if it was not in the queue."""
        self._settle(now, asking=ticket.id)
        entry = self._entries.pop(ticket.id, None)
        if entry is not None and entry.held_alone:
            self.abandoned = departure.abandoned(self.abandoned)
        self._admit(now)
        return entry is not None

    def evict(self, now: float) -> bool:
        """Take out all holders. Returns False if nobody held the name."""
        self._settle(now)
        holders = [id for id, entry in self._entries.items() if entry.admitted_at is not None]
        for id in holders:
            self._drop(id)
        self._admit(now)
        return bool(holders)

    def inspect(self, now: float, limit: int) -> Inspection:
        """The holders, and the first `limit` waiters."""
        self._settle(now)
        holders: list[Holder] = []
        waiters: list[Waiter] = []
        for entry in self._entries.values():
            owner, share, left = entry.ticket.owner, entry.ticket.share, entry.expires - now
            if entry.admitted_at is not None:
                holders.append(Holder(owner, entry.fence, now - entry.admitted_at, left, share))
            else:
                waiters.append(Waiter(owner, entry.fence, now - entry.joined, left, share))
        shown = tuple(waiters[:limit])
        return Inspection(
            self.name, tuple(holders), shown, len(waiters), self.fence, self.abandoned
        )

    def remember(self, ticket: Ticket, text: str, keep: float, now: float) -> bool:
        """Store a note for `keep` seconds. Returns False if this ticket does not hold the name."""
        self._settle(now)
        if self.standing(ticket.id, now).place is not Place.ADMITTED:
            return False
        self._note = text, now + keep
        return True

    def recall(self, now: float) -> str | None:
        """The stored note, or None if there is none or its time is over."""
        text, until = self._note
        return text if now < until else None

    def told(self) -> list[Ticket]:
        """The tickets that requests of other tickets have admitted since the last call. Wake these. Of a
        rate also the first waiter, if it was not the first before: no release will admit it, so it must
        know when to look."""
        told, self._told = self._told, {}
        return list(told.values())

    def __len__(self) -> int:
        return len(self._entries)

    def standing(self, id: str, now: float) -> Standing:
        """Where a ticket stands. This changes nothing."""
        entry = self._entries.get(id)
        return Standing(Place.GONE) if entry is None else self._standing(entry, now)

    def _settle(self, now: float, asking: str = "") -> None:
        """Take out the expired tickets and admit the tickets that may hold instead."""
        for id in [id for id, entry in self._entries.items() if entry.expires <= now]:
            self._drop(id)
        self._admit(now, asking)

    def _drop(self, id: str) -> None:
        """Take out a ticket that did not leave by itself. Only a ticket that held alone abandons the name:
        a ticket that shares it says nothing about the work of the others."""
        self.abandoned = self._entries.pop(id).held_alone or self.abandoned

    def _holding(self) -> list[_Entry]:
        return [entry for entry in self._entries.values() if entry.admitted_at is not None]

    def _free_for(self, ticket: Ticket) -> bool:
        holding = self._holding()
        nobody_waits = len(holding) == len(self._entries)
        return nobody_waits and fits(ticket.share, [entry.ticket.share for entry in holding])

    def _admit(self, now: float, asking: str = "") -> None:
        """Admit waiting tickets from the front. `asking` gets an answer, so it needs no wake-up."""
        holding = [entry.ticket.share for entry in self._holding()]
        for id, entry in self._entries.items():
            if entry.admitted_at is None:
                share = entry.ticket.share
                if not fits(share, holding):
                    # The tickets behind it may fit, but no ticket overtakes.
                    if share.lasts and id != self._watching:
                        self._watching = id
                        if id != asking:
                            self._told[id] = entry.ticket
                    return
                entry.admitted_at = now
                if share.group and share.lasts:
                    entry.expires = now + share.lasts
                holding.append(share)
                self._told.pop(id, None)  # what it was told before is old news
                if id != asking:
                    self._told[id] = entry.ticket

    def _standing(self, entry: _Entry, now: float) -> Standing:
        if entry.admitted_at is not None:
            return Standing(Place.ADMITTED, entry.fence, self.abandoned)
        ahead = [other for other in self._entries.values() if other.fence < entry.fence]
        # A waiter directly ahead watches the tickets ahead of it, so this ticket watches only that
        # waiter. Directly behind the holders, the end of any of them may make room.
        if ahead[-1].admitted_at is not None and entry.ticket.share.lasts:
            return Standing(Place.WAITING, entry.fence, recheck=self._room(entry.ticket.share, now))
        watched = ahead[-1:] if ahead[-1].admitted_at is None else ahead
        first = min(other.expires for other in watched)
        return Standing(Place.WAITING, entry.fence, recheck=max(0.0, first - now))

    def _room(self, share: Share, now: float) -> float:
        """Seconds until a ticket of a rate may fit beside the holders. Infinite for other tickets."""
        if not share.lasts:
            return math.inf
        holding = [(entry.ticket.share, entry.expires) for entry in self._holding()]
        return max(0.0, room_at(share, sorted(holding, key=lambda one: one[1])) - now)
