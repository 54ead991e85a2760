"""What the engine does to a queue, in SQL. `core/queue.py` says the same thing without SQL.

Every method runs inside a transaction that the caller begins and commits, so it sees and leaves a
queue in which all are admitted who may hold. Expired tickets are taken out when someone comes upon
them: at the front of a queue, and directly ahead of the ticket that asks. That is enough to be exact,
and it never costs more when many wait.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Sequence
from random import random

from fencelock.core.names import matches
from fencelock.core.ticket import (
    ADMITTED,
    GONE,
    REFUSED,
    WAITING,
    Departure,
    Holder,
    Inspection,
    Owner,
    Standing,
    Ticket,
    Waiter,
)
from fencelock.engines.sqlite.holding import Crowd, Head, Holders, unpacked
from fencelock.engines.sqlite.statements import JOIN, REMOVE, SQL
from fencelock.engines.sqlite.undisputed import prolong, take
from fencelock.io import clock

FORGET_RELEASED_US = 60 * 1_000_000
"""How long a name is remembered after it was last asked for, if its last holder released."""

FORGET_ABANDONED_US = 30 * 86_400 * 1_000_000
"""How long it is remembered that the last holder of a name did not release."""

# One in so many newcomers looks through so many names for those that can be forgotten: each leaves
# at most one name behind and four are looked at, so the file can't grow without end. The same holds
# for notes, of which each leaves at most one.
_SWEEP_ONE_IN = 64
_SWEEP_NAMES = 256
_SWEEP_NOTES = 128

_REFUSED = Standing(REFUSED)
_GONE = Standing(GONE)
_FOR_EVER = 2**62

_Members = tuple[bool, Crowd, dict[str, int]]
"""Those who share a name: its flag, they as a whole, and their fences by their ids."""


def now_us() -> int:
    """Microseconds since boot, sleep included."""
    return int(clock.now() * 1e6)


def sweeps_too() -> bool:
    """Whether a newcomer is to sweep."""
    return random() * _SWEEP_ONE_IN < 1


class Queues(Holders):
    """All queues of one file, over one connection."""

    def enter(
        self, ticket: Ticket, if_free: bool, listen: Callable[[str], str], sweeps: bool = False
    ) -> Standing:
        """Join, or renew and look again; `listen` says where a waiting ticket can be woken."""
        now = now_us()
        newest, abandoned, head, crowd = self.settle(ticket.name, now, ticket.id)
        admitted = True
        if head is not None or crowd is not None:
            held = self._held(ticket, head, crowd, now, abandoned=abandoned)
            if held is not None:
                return held
            fence, address = self._find(ticket, crowd, now)
            if fence:
                if (wake := listen(ticket.id)) != address:
                    self._execute(SQL["redirect"], (ticket.name, fence, wake))
                return self._waiting(ticket, fence, crowd, now)
            admitted = crowd is not None and not crowd.followed and crowd.admits(ticket.share)
            if if_free and not admitted:
                return _REFUSED
        fence = self._new_fence(newest, ticket.floor)
        expires = now + int(ticket.ttl * 1e6)
        ours = ticket.name, fence, ticket.id, ticket.owner.pack(), now
        turn = (now, expires, None) if admitted else (None, expires, listen(ticket.id))
        self._execute(JOIN, ours + turn)
        if ticket.share.group:
            self._execute(SQL["share"], (ticket.name, fence, *ticket.share))
        if sweeps:
            self.sweep(now)
        if admitted:
            return Standing(ADMITTED, fence, abandoned)
        return self._ahead(ticket.name, fence, crowd, now)

    def enter_free(self, tickets: Sequence[Ticket], listen: Callable[[str], str]) -> list[Standing]:
        """Join several queues, up to the first that is not free."""
        standings: list[Standing] = []
        for ticket in tickets:
            free = None if (sweeps := sweeps_too()) else take(self._execute, ticket, now_us())
            standings.append(free or self.enter(ticket, True, listen, sweeps))
            if standings[-1].place is REFUSED:
                break
        return standings + [_REFUSED] * (len(tickets) - len(standings))

    def renew(self, tickets: Sequence[Ticket]) -> list[Standing | None]:
        """Extend those that are there."""
        now = now_us()
        times = Counter([ticket.name for ticket in tickets])
        crowds = {name: self._members(name, now) for name, count in times.items() if count > 1}
        return [self._renew(ticket, now, crowds.get(ticket.name)) for ticket in tickets]

    def leave(self, ticket: Ticket, departure: Departure = Departure.RELEASED) -> bool:
        """Take out this very ticket, and admit those whom this lets in."""
        now = now_us()
        name = ticket.name
        _, abandoned, head, crowd = self.settle(name, now, ticket.id)
        if head is not None:
            fence, holder, alone = head
            if holder == ticket.id:
                self._execute(REMOVE, (name, fence))
                abandons = departure.abandoned(abandoned)
                if abandons != abandoned:
                    self._execute(SQL["flag"], (name, int(abandons)))
                if not alone:
                    self.admit(name, None, fence, now, abandoned=abandons)
                return True
        elif crowd is None:
            return False
        elif found := self._sharer(ticket, crowd):
            fence, weight = found
            self._execute(REMOVE, (name, fence))
            if crowd.followed:
                self.admit(name, crowd.without(weight), crowd.last, now, abandoned=abandoned)
            return True
        fence, _ = self._find(ticket, crowd, now)
        if fence:
            self.take_out(name, fence, crowd, now, abandoned=abandoned)
        return fence > 0

    def evict(self, name: str) -> bool:
        """Take out those who hold, and admit the next."""
        now = now_us()
        _, abandoned, head, crowd = self.settle(name, now)
        # Those admitted on the way here are evicted too, and must not hear otherwise.
        self.wakes = [wake._replace(admitted=False) for wake in self.wakes]
        if head is not None:
            self.abandon(name, head[0], now)
        elif crowd is not None:
            self._execute(SQL["clear"], (name, crowd.last, _FOR_EVER))
            self.admit(name, None, crowd.last, now, abandoned=abandoned)
        return head is not None or crowd is not None

    def remember(self, ticket: Ticket, text: str, keep: float) -> bool:
        """Note something down, if this very ticket holds."""
        _, _, head, crowd = self.settle(ticket.name, now_us())
        if not self._fence_of(ticket, head, crowd):
            return False
        until = time.time_ns() // 1000 + int(keep * 1e6)
        self._execute(SQL["note"], (ticket.name, text, until))
        return True

    def recall(self, name: str) -> str | None:
        """What was noted down, unless its time is up."""
        row = self._execute(SQL["recall"], (name, time.time_ns() // 1000)).fetchone()
        return None if row is None else row[0]

    def inspect(self, name: str, limit: int) -> Inspection:
        """Those who hold, the first waiters, and how many there are."""
        now = now_us()
        newest, abandoned, head, crowd = self.settle(name, now)
        if head is None and crowd is None:
            return Inspection(name, (), (), 0, newest, abandoned)
        size = crowd.size if crowd is not None else 1
        seen = [
            (
                Owner.unpack(owner),
                fence,
                (now - (joined if admitted is None else admitted)) / 1e6,
                (expires - now) / 1e6,
                unpacked(*stored),
            )
            for owner, fence, joined, admitted, expires, *stored in self._execute(
                SQL["list"], (name, now, size + limit)
            )
        ]
        holders = tuple(Holder(*fields) for fields in seen[:size])
        waiters = tuple(Waiter(*fields) for fields in seen[size:])
        ((alive,),) = self._execute(SQL["count"], (name, now))
        return Inspection(name, holders, waiters, alive - size, newest, abandoned)

    def names(self, pattern: str) -> list[str]:
        """The names with a living ticket that match a pattern."""
        rows = self._execute(SQL["names"], (now_us(),))
        return sorted(name for (name,) in rows if matches(name, pattern))

    def sweep(self, now: int) -> None:
        """Forget some names that are not in use, and some notes whose time is up, and take out some
        dead tickets nobody asked about."""
        wall = time.time_ns() // 1000
        ((floor, first),) = self._execute(SQL["file"])
        ((last, count),) = self._execute(SQL["stretch"], (first, _SWEEP_NAMES))
        if count:
            for (name,) in self._execute(SQL["dead"], (first, last, now)).fetchall():
                self.settle(name, now)
            forgotten = self._execute(
                SQL["forget"],
                (
                    first,
                    last,
                    wall - FORGET_RELEASED_US,
                    wall - FORGET_ABANDONED_US,
                    wall + FORGET_RELEASED_US,
                ),
            )
            # A name that is asked for again starts above all that were forgotten.
            floor = max([floor, *(newest for (newest,) in forgotten)])
        self._execute(SQL["discard"], (wall, _SWEEP_NOTES))
        self._execute(SQL["swept"], (floor, last if count == _SWEEP_NAMES else ""))

    def survive(self, boot: str) -> bool:
        """Whether the tickets are of this boot."""
        ((known,),) = self._execute(SQL["boot"])
        return bool(boot) and boot == known

    def reboot(self, boot: str) -> None:
        """Let the tickets expire that were made before this boot: whoever made them is dead."""
        if self.survive(boot):
            return
        # Without a boot id: a ticket that was last heard of at a moment still to come is of
        # another boot; one that isn't caught by this ends within its ttl.
        since = -(2**62) if boot else now_us()
        self._execute(SQL["expire"], (since,))
        self._execute(SQL["booted"], (boot,))

    def _renew(self, ticket: Ticket, now: int, members: _Members | None) -> Standing:
        crowd: Crowd | None
        if members is not None:
            abandoned, crowd, fences = members
            if fence := fences.get(ticket.id, 0):
                self._extend(ticket, fence, now)
                return Standing(ADMITTED, fence, abandoned)
        elif fence := prolong(self._execute, ticket, now):
            return Standing(ADMITTED, fence)
        else:
            # If this very request admits the ticket, the one who waits with it is woken all the same:
            # it is another thread that renews.
            _, abandoned, head, crowd = self.settle(ticket.name, now)
            if head is None and crowd is None:
                return _GONE
            held = self._held(ticket, head, crowd, now, abandoned=abandoned)
            if held is not None:
                return held
        fence, _ = self._find(ticket, crowd, now)
        return self._waiting(ticket, fence, crowd, now) if fence else _GONE

    def _members(self, name: str, now: int) -> _Members | None:
        """Those who share a name, all at once: looking for each of many among them takes too long."""
        _, abandoned, _, crowd = self.settle(name, now)
        if crowd is None:
            return None
        return abandoned, crowd, dict(self._execute(SQL["sharers"], (name, crowd.last)))

    def _held(
        self,
        ticket: Ticket,
        head: Head | None,
        crowd: Crowd | None,
        now: int,
        *,
        abandoned: bool,
    ) -> Standing | None:
        """If the asking ticket holds, extend it. One that holds alone may share from now on."""
        fence = self._fence_of(ticket, head, crowd)
        if not fence:
            return None
        self._extend(ticket, fence, now)
        if head is not None and ticket.share.group:
            self._execute(SQL["share"], (ticket.name, fence, *ticket.share))
            self.settle_crowd(ticket.name, now, abandoned=abandoned)
        return Standing(ADMITTED, fence, abandoned)

    def _fence_of(self, ticket: Ticket, head: Head | None, crowd: Crowd | None) -> int:
        """The fence of the asking ticket, if it is one of those who hold, else 0."""
        if head is not None:
            return head[0] if head[1] == ticket.id else 0
        found = self._sharer(ticket, crowd) if crowd is not None else None
        return found[0] if found is not None else 0

    def _sharer(self, ticket: Ticket, crowd: Crowd) -> tuple[int, int] | None:
        """The fence and the weight of the asking ticket, if it is one of a crowd."""
        found: tuple[int, int] | None = self._execute(
            SQL["sharer"], (ticket.name, crowd.last, ticket.id)
        ).fetchone()
        return found

    def _find(self, ticket: Ticket, crowd: Crowd | None, now: int) -> tuple[int, str]:
        """The fence (0: none) and the address of the asking ticket, if it waits and lives."""
        row = self._execute(SQL["find"], (ticket.name, ticket.id)).fetchone()
        if row is None:
            return 0, ""
        fence, expires, address = row
        if expires > now:
            return fence, address
        # It is not the first that waits behind a crowd, so nobody is let in by this.
        self.take_out(ticket.name, fence, crowd, now, abandoned=False)
        return 0, ""

    def _waiting(self, ticket: Ticket, fence: int, crowd: Crowd | None, now: int) -> Standing:
        """Extend a waiting ticket."""
        self._extend(ticket, fence, now)
        return self._ahead(ticket.name, fence, crowd, now)

    def _ahead(self, name: str, fence: int, crowd: Crowd | None, now: int) -> Standing:
        """The standing of a ticket that has others ahead: those who hold, at least, are alive."""
        while True:
            ahead, expires, address = self._execute(SQL["ahead"], (name, fence)).fetchone()
            if address is None and crowd is not None:
                expires = crowd.expires  # of those who hold, any may go
            if expires > now:
                return Standing(WAITING, fence, False, (expires - now) / 1e6)
            self.bury(name, ahead, address)

    def _extend(self, ticket: Ticket, fence: int, now: int) -> None:
        expires = now + int(ticket.ttl * 1e6)
        self._execute(SQL["extend"], (ticket.name, fence, ticket.owner.pack(), now, expires))

    def _new_fence(self, newest: int, floor: int) -> int:
        """A fence above all earlier ones of a name; the clock makes it so even in a new file."""
        if not newest:
            ((newest, _),) = self._execute(SQL["file"])
        return max(newest + 1, time.time_ns() // 1000, floor + 1)
