"""A ticket: one contender's place in the queue of a name, and what an engine answers about it."""

from __future__ import annotations

import math
from enum import Enum, IntEnum
from typing import NamedTuple


class Mode(Enum):
    """What a ticket asks for; see `admission` for what each conflicts with."""

    EXCLUSIVE = "exclusive"
    READ = "read"
    WRITE = "write"


class Owner(NamedTuple):
    """Who, for people: shown in messages and listings, never used to decide anything."""

    host: str
    pid: int
    label: str = ""

    def __str__(self) -> str:
        place = f"pid {self.pid} on {self.host}"
        return f"{self.label} ({place})" if self.label else place

    def pack(self) -> str:
        """One line for an engine to store; hosts contain no spaces."""
        return f"{self.host} {self.pid} {self.label}"

    @classmethod
    def unpack(cls, text: str) -> Owner:
        host, pid, label = text.split(" ", 2)
        return cls(host, int(pid), label)


class Ticket(NamedTuple):
    """What a contender sends. The id is random, secret and made before the first byte is sent,
    so that every request can be repeated and still means the same thing."""

    name: str
    id: str
    ttl: float
    owner: Owner
    mode: Mode = Mode.EXCLUSIVE
    permits: int = 1

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
    """The previous holder did not release: its work may be half done."""
    recheck: float = math.inf
    """Seconds until the one ahead would expire: look again then, if nothing was heard."""


class Contender(NamedTuple):
    """One ticket as people may see it: without its id."""

    owner: Owner
    fence: int
    since: float
    """Seconds since it was admitted (a holder) or joined the queue (a waiter)."""
    expires: float
    """Seconds until it expires unless renewed."""


class Inspection(NamedTuple):
    """Who holds a name and who waits for it, at one moment."""

    name: str
    holders: tuple[Contender, ...]
    waiters: tuple[Contender, ...]
    waiting: int
    """How many wait in all: `waiters` may show only the first of them."""
    fence: int
    """The newest fence handed out, 0 if none is remembered."""
    abandoned: bool
    """The last holder that ended did not release."""
