"""What the engine does to a queue, in SQL. `core/queue.py` says the same thing without SQL.

Every method runs inside a transaction that the caller begins and commits, so it sees and leaves a
queue whose head, if there is one, is admitted. Expired tickets are taken out when someone comes
upon them: at the head of a queue, and directly ahead of the ticket that asks. That is enough to be
exact, and it never costs more when many wait.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Sequence
from importlib.resources import files
from random import random
from typing import Any, NamedTuple

from holdfast.core.names import matches
from holdfast.core.ticket import Contender, Departure, Inspection, Owner, Place, Standing, Ticket
from holdfast.io import clock

FORGET_RELEASED_US = 60 * 1_000_000
"""How long a name is remembered after it was last asked for, if its last holder released."""

FORGET_ABANDONED_US = 30 * 86_400 * 1_000_000
"""How long it is remembered that the last holder of a name did not release."""

# One in so many newcomers looks through so many names for those that can be forgotten: each leaves
# at most one name behind and four are looked at, so the file can't grow without end.
_SWEEP_ONE_IN = 64
_SWEEP_NAMES = 256

_REFUSED = Standing(Place.REFUSED)
_GONE = Standing(Place.GONE)


def _statements() -> dict[str, str]:
    text = files(__package__).joinpath("statements.sql").read_text("utf-8")
    parts = re.split(r"^-- (\w+) \(.*?\):(?:.*\n)(?:--.*\n)*", text, flags=re.MULTILINE)
    return {name: " ".join(sql.split()) for name, sql in zip(parts[1::2], parts[2::2], strict=True)}


SQL = _statements()

# Those on the way of every lock.
_LOOK = SQL["look"]
_JOIN = SQL["join"]
_REMOVE = SQL["remove"]

# The fence and the id of the holder.
Head = tuple[int, str]


class Wake(NamedTuple):
    """Whom to wake after the commit, and what to tell: with `admitted` False, to look again."""

    address: str
    fence: int
    admitted: bool
    abandoned: bool = False


def now_us() -> int:
    """Microseconds since boot, sleep included."""
    return int(clock.now() * 1e6)


class Queues:
    """All queues of one file, over one connection."""

    def __init__(self, execute: Callable[..., Any]) -> None:
        self._execute = execute
        self.wakes: list[Wake] = []

    def enter(self, ticket: Ticket, if_free: bool, listen: Callable[[str], str]) -> Standing:
        """Join, or renew and look again; `listen` says where a waiting ticket can be woken."""
        now = now_us()
        newest, abandoned, head, _ = self._settle(ticket.name, now, ticket.id)
        if head is not None:
            fence, holder = head
            if holder == ticket.id:
                return self._held(ticket, fence, now, abandoned)
            fence, address = self._find(ticket, now)
            if fence:
                if (wake := listen(ticket.id)) != address:
                    self._execute(SQL["redirect"], (ticket.name, fence, wake))
                return self._waiting(ticket, fence, now)
            if if_free:
                return _REFUSED
        fence = self._new_fence(newest)
        expires = now + int(ticket.ttl * 1e6)
        ours = (ticket.name, fence, ticket.id, ticket.owner.pack(), now)
        if head is None:
            self._execute(_JOIN, (*ours, now, expires, None))
            standing = Standing(Place.ADMITTED, fence, abandoned)
        else:
            self._execute(_JOIN, (*ours, None, expires, listen(ticket.id)))
            standing = self._ahead(ticket.name, fence, now)
        if random() * _SWEEP_ONE_IN < 1:
            self.sweep(now)
        return standing

    def renew(self, tickets: Sequence[Ticket]) -> list[Standing | None]:
        """Extend those that are there."""
        now = now_us()
        return [self._renew(ticket, now) for ticket in tickets]

    def leave(self, ticket: Ticket, departure: Departure = Departure.RELEASED) -> bool:
        """Take out this very ticket, and admit the next if it was the holder."""
        now = now_us()
        name = ticket.name
        _, abandoned, head, alone = self._settle(name, now, ticket.id)
        if head is None:
            return False
        fence, holder = head
        if holder != ticket.id:
            fence, _ = self._find(ticket, now)
            if fence:
                self._take_out(name, fence)
            return fence > 0
        self._execute(_REMOVE, (name, fence))
        abandons = departure.abandoned(abandoned)
        if abandons != abandoned:
            self._execute(SQL["flag"], (name, int(abandons)))
        if not alone:
            self._pass_on(name, fence, now, abandoned=abandons)
        return True

    def evict(self, name: str) -> bool:
        """Take out the holder, and admit the next."""
        now = now_us()
        _, _, head, _ = self._settle(name, now)
        if head is None:
            return False
        # One that was admitted on the way here is evicted too, and must not hear otherwise.
        self.wakes = [wake._replace(admitted=False) for wake in self.wakes]
        self._abandon(name, head[0], now)
        return True

    def inspect(self, name: str, limit: int) -> Inspection:
        """The holder, the first waiters, and how many there are."""
        now = now_us()
        newest, abandoned, head, _ = self._settle(name, now)
        if head is None:
            return Inspection(name, (), (), 0, newest, abandoned)
        holder, *waiters = (
            Contender(
                Owner.unpack(owner),
                fence,
                (now - (joined if admitted is None else admitted)) / 1e6,
                (expires - now) / 1e6,
            )
            for owner, fence, joined, admitted, expires in self._execute(
                SQL["list"], (name, now, limit + 1)
            )
        )
        ((alive,),) = self._execute(SQL["count"], (name, now))
        return Inspection(name, (holder,), tuple(waiters), alive - 1, newest, abandoned)

    def names(self, pattern: str) -> list[str]:
        """The names with a living ticket that match a pattern."""
        rows = self._execute(SQL["names"], (now_us(),))
        return sorted(name for (name,) in rows if matches(name, pattern))

    def sweep(self, now: int) -> None:
        """Forget some names that are not in use, and take out some dead tickets nobody asked about."""
        ((floor, first),) = self._execute(SQL["file"])
        ((last, count),) = self._execute(SQL["stretch"], (first, _SWEEP_NAMES))
        if count:
            for (name,) in self._execute(SQL["dead"], (first, last, now)).fetchall():
                self._settle(name, now)
            wall = time.time_ns() // 1000
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

    def _renew(self, ticket: Ticket, now: int) -> Standing:
        # If this very request admits the ticket, the one who waits with it is woken all the same:
        # it is another thread that renews.
        _, abandoned, head, _ = self._settle(ticket.name, now)
        if head is None:
            return _GONE
        fence, holder = head
        if holder == ticket.id:
            return self._held(ticket, fence, now, abandoned)
        fence, _ = self._find(ticket, now)
        return self._waiting(ticket, fence, now) if fence else _GONE

    def _settle(self, name: str, now: int, asking: str = "") -> tuple[int, bool, Head | None, bool]:
        """The name's newest fence (0: not known), its flag, the living head of its queue, admitted,
        and whether that is certainly alone."""
        rows = self._execute(_LOOK, (name,)).fetchall()
        if not rows:
            return 0, False, None, True
        _, _, _, newest, flag = rows[0]
        if len(rows) == 1:
            return newest, flag == 1, None, True
        fence, id, expires, _, _ = rows[1]
        if expires > now:
            return newest, flag == 1, (fence, id), len(rows) == 2
        return newest, True, self._abandon(name, fence, now, asking), False

    def _abandon(self, name: str, fence: int, now: int, asking: str = "") -> Head | None:
        """Take out a holder that did not release; the next one is admitted and returned."""
        self._execute(_REMOVE, (name, fence))
        self._execute(SQL["flag"], (name, 1))
        return self._pass_on(name, fence, now, abandoned=True, asking=asking)

    def _pass_on(
        self, name: str, fence: int, now: int, *, abandoned: bool, asking: str = ""
    ) -> Head | None:
        """Admit the first living ticket behind a holder that is gone."""
        while (row := self._behind(name, fence)) is not None:
            fence, id, expires, address = row
            if expires > now:
                self._execute(SQL["admit"], (name, fence, now))
                if id != asking:
                    self.wakes.append(Wake(address, fence, True, abandoned))
                return fence, id
            self._bury(name, fence, address)
        return None

    def _find(self, ticket: Ticket, now: int) -> tuple[int, str]:
        """The fence (0: none) and the address of the asking ticket, if it waits and lives."""
        row = self._execute(SQL["find"], (ticket.name, ticket.id)).fetchone()
        if row is None:
            return 0, ""
        fence, expires, address = row
        if expires > now:
            return fence, address
        self._take_out(ticket.name, fence)
        return 0, ""

    def _held(self, ticket: Ticket, fence: int, now: int, abandoned: bool) -> Standing:
        """Extend the holder."""
        self._extend(ticket, fence, now)
        return Standing(Place.ADMITTED, fence, abandoned)

    def _waiting(self, ticket: Ticket, fence: int, now: int) -> Standing:
        """Extend a waiting ticket."""
        self._extend(ticket, fence, now)
        return self._ahead(ticket.name, fence, now)

    def _ahead(self, name: str, fence: int, now: int) -> Standing:
        """The standing of a ticket that has others ahead: the head, at least, is alive."""
        while True:
            ahead, expires, address = self._execute(SQL["ahead"], (name, fence)).fetchone()
            if expires > now:
                return Standing(Place.WAITING, fence, False, (expires - now) / 1e6)
            self._bury(name, ahead, address)

    def _behind(self, name: str, fence: int) -> tuple[int, str, int, str] | None:
        row: tuple[int, str, int, str] | None
        row = self._execute(SQL["behind"], (name, fence)).fetchone()
        return row

    def _take_out(self, name: str, fence: int) -> None:
        """Remove a waiting ticket; the one behind it has a new one ahead now and should look."""
        behind = self._behind(name, fence)
        self._execute(_REMOVE, (name, fence))
        if behind is not None:
            fence, _, _, address = behind
            self.wakes.append(Wake(address, fence, False))

    def _bury(self, name: str, fence: int, address: str) -> None:
        """Remove a dead waiting ticket. Ringing there tells a sleeper, or finds a pipe to remove."""
        self._execute(_REMOVE, (name, fence))
        self.wakes.append(Wake(address, fence, False))

    def _extend(self, ticket: Ticket, fence: int, now: int) -> None:
        expires = now + int(ticket.ttl * 1e6)
        self._execute(SQL["extend"], (ticket.name, fence, ticket.owner.pack(), now, expires))

    def _new_fence(self, newest: int) -> int:
        """A fence above all earlier ones of a name; the clock makes it so even in a new file."""
        if not newest:
            ((newest, _),) = self._execute(SQL["file"])
        return max(newest + 1, time.time_ns() // 1000)
