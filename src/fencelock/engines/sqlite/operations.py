"""The operations of the engine in SQL. `core/queue.py` says the same thing without SQL.

Each method runs inside a transaction that the caller begins and commits. Before and after it, every ticket
that may hold is admitted. Expired tickets are taken out when a request comes upon them: at the front of the
queue, and directly ahead of the ticket that asks. That is enough to be exact, and it never costs more when
many tickets wait.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Sequence
from random import random

from fencelock.core.names import matches
from fencelock.core.ticket import (
    ADMITTED,
    ALONE,
    GONE,
    REFUSED,
    WAITING,
    Departure,
    Holder,
    Inspection,
    Owner,
    Share,
    Standing,
    Ticket,
    Waiter,
)
from fencelock.engines.sqlite import uncontended
from fencelock.engines.sqlite.admission import Admission, Holders
from fencelock.engines.sqlite.statements import SQL
from fencelock.engines.sqlite.uncontended import pack_owner
from fencelock.io import clock

FORGET_RELEASED_US = 60 * 1_000_000
"""How long a name is remembered after it was last asked for, if its last holder released it."""

FORGET_ABANDONED_US = 30 * 86_400 * 1_000_000
"""How long it is remembered that the last holder of a name did not release it."""

# One in 64 new tickets looks at 256 names and deletes the ones that can be forgotten. Each new ticket
# leaves at most one name behind and four are looked at for it, so the file can't grow without end. The
# same is true of notes: each new ticket leaves at most one.
_SWEEP_ONE_IN = 64
_SWEEP_NAMES = 256
_SWEEP_NOTES = 128

_REFUSED = Standing(REFUSED)
_GONE = Standing(GONE)
_FOR_EVER = 2**62

_Group = tuple[bool, Holders, dict[str, int]]
"""A name that several tickets hold: whether it is abandoned, its holders, and their fences by id."""


def now_us() -> int:
    """Microseconds since boot, sleep included."""
    return int(clock.now() * 1e6)


def is_sweep_due() -> bool:
    """Whether a new ticket also sweeps: one in so many does, chosen at random."""
    return random() * _SWEEP_ONE_IN < 1


class Operations(Admission):
    """What the engine does to the queues of one file, over one connection."""

    def enter(
        self, ticket: Ticket, if_free: bool, listen: Callable[[str], str], sweep: bool = False
    ) -> Standing:
        """Join, or renew and look again. `listen` returns the address at which a waiter can be woken."""
        now = now_us()
        newest, abandoned, holders = self.settle(ticket.name, now, ticket.id)
        admitted = True
        if holders is not None:
            if holders.id == ticket.id or holders.share.group:
                held = self._held(ticket, holders, now, abandoned)
                if held is not None:
                    return held
            fence, address = self._find(ticket, holders, now)
            if fence:
                if (wake := listen(ticket.id)) != address:
                    self._execute(SQL["redirect"], (ticket.name, fence, wake))
                self._extend(ticket, fence, now)
                return self._behind_others(ticket, fence, holders, now)
            admitted = not holders.followed and holders.admits(ticket.share)
            if if_free and not admitted:
                if not ticket.share.lasts:
                    return _REFUSED
                room = self.room_at(ticket.name, ticket.share, holders)
                return Standing(REFUSED, recheck=(room - now) / 1e6)
        if not newest:
            ((newest, _),) = self._execute(SQL["file"])
        # The clock makes the fence greater than all earlier ones even in a new file.
        fence = max(newest + 1, time.time_ns() // 1000, ticket.floor + 1)
        lives = (admitted and ticket.share.lasts) or ticket.ttl
        expires = now + int(lives * 1e6)
        identity = ticket.name, fence, ticket.id, pack_owner(ticket.owner), now
        place = (now, expires, None) if admitted else (None, expires, listen(ticket.id))
        self._execute(SQL["join"], identity + place)
        if ticket.share.group:
            self._execute(SQL["share"], (ticket.name, fence, *ticket.share))
        if sweep:
            self.sweep(now)
        if holders is None or admitted:
            return Standing(ADMITTED, fence, abandoned)
        return self._behind_others(ticket, fence, holders, now)

    def enter_free(self, tickets: Sequence[Ticket], listen: Callable[[str], str]) -> list[Standing]:
        """Join several queues, up to the first that is not free."""
        standings: list[Standing] = []
        for ticket in tickets:
            sweep = is_sweep_due()
            free = None if sweep else uncontended.take(self._execute, ticket, now_us())
            standings.append(free or self.enter(ticket, True, listen, sweep))
            if standings[-1].place is REFUSED:
                break
        return standings + [_REFUSED] * (len(tickets) - len(standings))

    def renew(self, tickets: Sequence[Ticket]) -> list[Standing | None]:
        """Extend the tickets that are there."""
        now = now_us()
        times = Counter([ticket.name for ticket in tickets])
        groups = {name: self._group_of(name, now) for name, count in times.items() if count > 1}
        return [self._renew(ticket, now, groups.get(ticket.name)) for ticket in tickets]

    def leave(self, ticket: Ticket, departure: Departure = Departure.RELEASED) -> bool:
        """Take out this ticket, and admit the tickets that fit now."""
        now = now_us()
        name = ticket.name
        _, abandoned, holders = self.settle(name, now, ticket.id)
        if holders is None:
            return False
        if holders.id == ticket.id:
            self._execute(SQL["remove"], (name, holders.last))
            abandons = departure.abandoned(abandoned)
            if abandons != abandoned:
                self._execute(SQL["flag"], (name, int(abandons)))
            if holders.followed:
                self.admit(name, None, holders.last, now, abandons)
            return True
        if holders.share.group:
            fence, weight = self._member(ticket, holders)
            if fence:
                self._execute(SQL["remove"], (name, fence))
                if holders.followed:
                    self.admit(name, holders.without(weight), holders.last, now, abandoned)
                return True
        fence, _ = self._find(ticket, holders, now)
        if fence:
            self.remove_waiter(name, fence, holders, now, abandoned)
        return fence > 0

    def leave_all(self, tickets: Sequence[Ticket]) -> list[bool]:
        """Take out several released tickets."""
        now = now_us()
        return [
            uncontended.give_back(self._execute, ticket, now) or self.leave(ticket)
            for ticket in tickets
        ]

    def evict(self, name: str) -> bool:
        """Take out the holders, and admit the next tickets."""
        now = now_us()
        _, abandoned, holders = self.settle(name, now)
        if holders is None:
            return False
        # Tickets that `settle` has just admitted are evicted as well. They must not hear that they hold.
        self.wake_ups = [wake_up._replace(admitted=False) for wake_up in self.wake_ups]
        if holders.share.group:
            self._execute(SQL["clear"], (name, holders.last, _FOR_EVER))
            self.admit(name, None, holders.last, now, abandoned)
        else:
            self.abandon(name, holders.last, now)
        return True

    def remember(self, ticket: Ticket, text: str, keep: float) -> bool:
        """Store a note, if this ticket holds the name."""
        _, _, holders = self.settle(ticket.name, now_us())
        if holders is None:
            return False
        if holders.id != ticket.id and not self._member(ticket, holders)[0]:
            return False
        until = time.time_ns() // 1000 + int(keep * 1e6)
        self._execute(SQL["note"], (ticket.name, text, until))
        return True

    def recall(self, name: str) -> str | None:
        """The note of a name, unless its time is over."""
        row = self._execute(SQL["recall"], (name, time.time_ns() // 1000)).fetchone()
        return None if row is None else row[0]

    def inspect(self, name: str, limit: int) -> Inspection:
        """The holders, the first waiters, and the number of waiters."""
        now = now_us()
        newest, abandoned, holders = self.settle(name, now)
        if holders is None:
            return Inspection(name, (), (), 0, newest, abandoned)
        size = holders.size
        seen = [
            (
                Owner.unpack(owner),
                fence,
                (now - (joined if admitted is None else admitted)) / 1e6,
                (expires - now) / 1e6,
                ALONE if group is None else Share(group, *rest),
            )
            for owner, fence, joined, admitted, expires, group, *rest in self._execute(
                SQL["list"], (name, now, size + limit)
            )
        ]
        holding = tuple(Holder(*fields) for fields in seen[:size])
        waiting = tuple(Waiter(*fields) for fields in seen[size:])
        ((alive,),) = self._execute(SQL["count"], (name, now))
        return Inspection(name, holding, waiting, alive - size, newest, abandoned)

    def names(self, pattern: str) -> list[str]:
        """The names with a live ticket that match a pattern."""
        rows = self._execute(SQL["names"], (now_us(),))
        return sorted(name for (name,) in rows if matches(name, pattern))

    def sweep(self, now: int) -> None:
        """Delete some names that are not in use, some notes whose time is over, and some expired tickets
        that no request has come upon."""
        wall = time.time_ns() // 1000
        ((floor, first),) = self._execute(SQL["file"])
        ((last, count),) = self._execute(SQL["stretch"], (first, _SWEEP_NAMES))
        if count:
            for (name,) in self._execute(SQL["expired"], (first, last, now)).fetchall():
                self.settle(name, now)
            released, abandoned = wall - FORGET_RELEASED_US, wall - FORGET_ABANDONED_US
            moments = released, abandoned, wall + FORGET_RELEASED_US
            forgotten = self._execute(SQL["forget"], (first, last, *moments))
            # A forgotten name that is used again starts above all fences that were forgotten.
            floor = max([floor, *(newest for (newest,) in forgotten)])
        self._execute(SQL["discard"], (wall, _SWEEP_NOTES))
        self._execute(SQL["swept"], (floor, last if count == _SWEEP_NAMES else ""))

    def is_boot(self, boot: str) -> bool:
        """Whether the tickets in the file are of this boot."""
        ((known,),) = self._execute(SQL["boot"])
        return bool(boot) and boot == known

    def start_boot(self, boot: str) -> None:
        """Let the tickets of earlier boots expire: the processes that made them are dead."""
        if self.is_boot(boot):
            return
        # Without a boot id: a ticket that was last heard of at a later moment than now is of another
        # boot. Any other ticket ends within its ttl.
        since = -(2**62) if boot else now_us()
        self._execute(SQL["expire"], (since,))
        self._execute(SQL["booted"], (boot,))

    def _renew(self, ticket: Ticket, now: int, group: _Group | None) -> Standing:
        if group is not None:
            abandoned, holders, fences = group
            if fence := fences.get(ticket.id, 0):
                self._extend(ticket, fence, now)
                return Standing(ADMITTED, fence, abandoned)
        elif fence := uncontended.renew(self._execute, ticket, now):
            return Standing(ADMITTED, fence)
        else:
            # If this request admits the ticket, its waiter is woken all the same: the waiter is another
            # thread than the one that renews.
            _, abandoned, found = self.settle(ticket.name, now)
            if found is None:
                return _GONE
            holders = found
            if holders.id == ticket.id or holders.share.group:
                held = self._held(ticket, holders, now, abandoned)
                if held is not None:
                    return held
        fence, _ = self._find(ticket, holders, now)
        if not fence:
            return _GONE
        self._extend(ticket, fence, now)
        return self._behind_others(ticket, fence, holders, now)

    def _group_of(self, name: str, now: int) -> _Group | None:
        """All holders of a shared name at once: to look for each of many by itself takes too long."""
        _, abandoned, holders = self.settle(name, now)
        if holders is None or not holders.share.group:
            return None
        return abandoned, holders, dict(self._execute(SQL["members"], (name, holders.last)))

    def _held(self, ticket: Ticket, holders: Holders, now: int, abandoned: bool) -> Standing | None:
        """Extend the ticket if it holds. A ticket that holds alone may join a group."""
        fence = holders.last if holders.id == ticket.id else self._member(ticket, holders)[0]
        if not fence:
            return None
        self._extend(ticket, fence, now)
        if ticket.share.group and not holders.share.group:
            self._execute(SQL["share"], (ticket.name, fence, *ticket.share))
            self.settle_group(ticket.name, now, abandoned)
        return Standing(ADMITTED, fence, abandoned)

    def _member(self, ticket: Ticket, holders: Holders) -> tuple[int, int]:
        """The fence and the weight of the ticket, if it is one of several holders. Otherwise 0 and 0."""
        row = self._execute(SQL["member"], (ticket.name, holders.last, ticket.id)).fetchone()
        return (0, 0) if row is None else row

    def _find(self, ticket: Ticket, holders: Holders, now: int) -> tuple[int, str]:
        """The fence and the address of the ticket, if it waits and is alive. Otherwise the fence is 0."""
        row = self._execute(SQL["find"], (ticket.name, ticket.id)).fetchone()
        if row is None:
            return 0, ""
        fence, expires, address = row
        if expires > now:
            return fence, address
        # It has expired. It is not the first waiter behind a group, so removing it admits no ticket.
        self.remove_waiter(ticket.name, fence, holders, now, abandoned=False)
        return 0, ""

    def _behind_others(self, ticket: Ticket, fence: int, holders: Holders, now: int) -> Standing:
        """The standing of a waiter: when does the ticket ahead expire? The holders, at least, are alive."""
        name, share = ticket.name, ticket.share
        while True:
            ahead, expires, address = self._execute(SQL["ahead"], (name, fence)).fetchone()
            if address is None:  # directly behind the holders: the end of any may make room
                expires = self.room_at(name, share, holders) if share.lasts else holders.expires
            if expires > now:
                return Standing(WAITING, fence, False, (expires - now) / 1e6)
            self.remove_expired_waiter(name, ahead, address)

    def _extend(self, ticket: Ticket, fence: int, now: int) -> None:
        expires = now + int(ticket.ttl * 1e6)
        self._execute(SQL["extend"], (ticket.name, fence, pack_owner(ticket.owner), now, expires))
