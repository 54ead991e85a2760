"""A ticket: one contender's place in the queue of a name, and what an engine answers about it."""

from __future__ import annotations

import math
from enum import IntEnum
from typing import NamedTuple


class Share(NamedTuple):
    """With whom a ticket may hold a name: with others of the same group, as far as the permits reach.

    Those without a group hold alone; `admission` has the rule.
    """

    group: str = ""
    weight: int = 1
    """How many of the group's permits it takes."""
    permits: int = 1
    """How many permits the group has in all."""

    @classmethod
    def of(cls, permits: int, weight: int = 1) -> Share:
        """A part of a semaphore. Whoever has another number of permits in mind is of another group."""
        return cls(f"{permits} permits", weight, permits)


ALONE = Share()
"""A mutex, or the writer of a read-write lock."""

READING = Share("read", weight=0)
"""A reader: there is room for any number."""


class Owner(NamedTuple):
    """Who, for people: shown in messages and listings, never used to decide anything."""

    host: str
    pid: int
    label: str = ""
    data: str = ""
    """Text for other clients: the value of a leader, the stamp of a transaction."""

    def __str__(self) -> str:
        place = f"pid {self.pid} on {self.host}"
        return f"{self.label} ({place})" if self.label else place

    def pack(self) -> str:
        """One line for an engine to store; hosts contain no spaces, and labels no tabs."""
        return f"{self.host} {self.pid} {self.label}" + (f"\t{self.data}" if self.data else "")

    @classmethod
    def unpack(cls, text: str) -> Owner:
        host, pid, rest = text.split(" ", 2)
        label, _, data = rest.partition("\t")
        return cls(host, int(pid), label, data)


class Ticket(NamedTuple):
    """What a contender sends. The id is random, secret and made before the first byte is sent,
    so that every request can be repeated and still means the same thing."""

    name: str
    id: str
    ttl: float
    owner: Owner
    share: Share = ALONE
    floor: int = 0
    """A newcomer's fence is to be above this: somebody has seen it, though the engine may have forgotten."""

    def __repr__(self) -> str:
        return f"<Ticket for {self.name!r} of {self.owner}>"


class Place(IntEnum):
    """Where a ticket stands. Engines answer with these numbers."""

    GONE = 0
    """Not in the queue: it expired, was evicted, has left or was never there."""
    WAITING = 1
    ADMITTED = 2
    REFUSED = 3
    """It was to join only if free, and it was not free: it did not join."""


# For those who ask all the time: it takes four times as long to get at a member of a class.
GONE, WAITING, ADMITTED, REFUSED = Place


class Departure(IntEnum):
    """Why a ticket is taken out: the next holder learns whether the one before it was done."""

    RELEASED = 0
    """Its holder is done."""
    LOST = 1
    """Its holder lost the lease in the middle of its work: whoever is next finds it abandoned."""
    WITHDRAWN = 2
    """Nobody ever worked under it: how the holder before it ended still counts."""

    def abandoned(self, before: bool) -> bool:
        """Whether a name counts as abandoned once its holder has departed in this way."""
        return before if self is Departure.WITHDRAWN else self is Departure.LOST


class Standing(NamedTuple):
    """An engine's answer about one ticket."""

    place: Place
    fence: int = 0
    abandoned: bool = False
    """The last one that held alone did not release: its work may be half done."""
    recheck: float = math.inf
    """Seconds until one ahead would expire: look again then, if nothing was heard."""


class Holder(NamedTuple):
    """A ticket that holds a name, as people may see it: without its id."""

    owner: Owner
    fence: int
    held_for: float
    """Seconds since the engine admitted it."""
    expires_in: float
    """Seconds until it expires unless renewed."""
    share: Share = ALONE


class Waiter(NamedTuple):
    """A ticket that waits for a name, as people may see it: without its id."""

    owner: Owner
    fence: int
    waiting_for: float
    """Seconds since it joined the queue."""
    expires_in: float
    """Seconds until it expires unless renewed."""
    share: Share = ALONE


Contender = Holder | Waiter


class Inspection(NamedTuple):
    """Who holds a name and who waits for it, at one moment."""

    name: str
    holders: tuple[Holder, ...]
    waiters: tuple[Waiter, ...]
    waiting: int
    """How many wait in all: `waiters` may show only the first of them."""
    fence: int
    """The newest fence handed out, 0 if none is remembered."""
    abandoned: bool
    """The last one that held alone did not release."""

    @property
    def contenders(self) -> tuple[Contender, ...]:
        """The holders, then the waiters, in the order of the queue."""
        return *self.holders, *self.waiters
