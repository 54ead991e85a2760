"""Tickets, and what an engine answers about them. A ticket is a contender's place in the queue of a name."""

from __future__ import annotations

import math
from enum import IntEnum
from functools import lru_cache
from typing import NamedTuple

RATE = "rate "
"""What the group of a rate begins with. Behind it stand the microseconds that a ticket lasts."""


@lru_cache(256)
def _lasting(group: str) -> float:
    """The seconds in the group of a rate. 0 for any other group."""
    digits = group.removeprefix(RATE)
    if digits == group or not (digits.isascii() and digits.isdecimal() and len(digits) <= 13):
        return 0.0
    return int(digits) / 1e6


class Share(NamedTuple):
    """Which tickets may hold a name together: tickets of one group, while the group has permits left.

    A ticket without a group holds alone. `admission.py` has the rule.
    """

    group: str = ""
    weight: int = 1
    """How many of the group's permits the ticket takes."""
    permits: int = 1
    """How many permits the group has in all."""

    @property
    def kind(self) -> str:
        """What a ticket with this share is, for people: "lock", "read", "semaphore" or "rate"."""
        if not self.group:
            return "lock"
        if self.group == "read":
            return "read"
        return "rate" if self.lasts else "semaphore"

    @property
    def lasts(self) -> float:
        """Seconds that the ticket of a rate lives, from its admission: no renewal changes that.

        0 for all other tickets, which live as long as they are renewed. While a ticket of a rate waits, it
        is renewed as any other.
        """
        return _lasting(self.group)

    @classmethod
    def of(cls, permits: int, weight: int = 1) -> Share:
        """The share of a semaphore's ticket. Another number of permits makes another group."""
        return cls(f"{permits} permits", weight, permits)

    @classmethod
    def rate(cls, limit: int, per: float, weight: int = 1) -> Share:
        """The share of a rate's ticket: a permit that nobody releases, and that ends `per` seconds later.

        Rates with another limit are the same group: each ticket counts all permits, and keeps its own limit.
        """
        return cls(f"{RATE}{round(per * 1e6)}", weight, limit)


ALONE = Share()
"""The share of a mutex, and of the writer of a read-write lock."""

READING = Share("read", weight=0)
"""The share of a reader. Readers take no permits, so any number of them fits."""


class Owner(NamedTuple):
    """A description of the ticket's owner for people. No decision depends on it."""

    host: str
    pid: int
    label: str = ""
    data: str = ""
    """Text for other clients: the value of a leader, the stamp of a transaction."""

    def __str__(self) -> str:
        place = f"pid {self.pid} on {self.host}"
        return f"{self.label} ({place})" if self.label else place

    def pack(self) -> str:
        """One line for an engine to store. A host contains no space and a label contains no tab."""
        return f"{self.host} {self.pid} {self.label}" + (f"\t{self.data}" if self.data else "")

    @classmethod
    def unpack(cls, text: str) -> Owner:
        host, pid, rest = text.split(" ", 2)
        label, _, data = rest.partition("\t")
        return cls(host, int(pid), label, data)


class Ticket(NamedTuple):
    """What a contender sends to an engine.

    The id is random and secret. It is made before the first byte is sent, so every request can be
    repeated and still means the same thing.
    """

    name: str
    id: str
    ttl: float
    owner: Owner
    share: Share = ALONE
    floor: int = 0
    """A new ticket's fence must be greater than this number. Some storage has seen this fence, and the
    engine may have forgotten it."""

    def __repr__(self) -> str:
        return f"<Ticket for {self.name!r} of {self.owner}>"


class Place(IntEnum):
    """Where a ticket stands. Engines answer with these numbers."""

    GONE = 0
    """The ticket is not in the queue. It expired, was evicted, has left, or never joined."""
    WAITING = 1
    """The ticket is in the queue and must wait."""
    ADMITTED = 2
    """The ticket holds the name."""
    REFUSED = 3
    """The ticket did not join: it asked to join only if the name was free, and the name was not free."""


# For code that runs on every request: looking up a member of an enum class takes four times as long.
GONE, WAITING, ADMITTED, REFUSED = Place


class Departure(IntEnum):
    """Why a ticket is taken out. It decides whether the next holder finds the name abandoned."""

    RELEASED = 0
    """The holder has finished its work."""
    LOST = 1
    """The holder lost its lease in the middle of its work. The next holder finds the name abandoned."""
    WITHDRAWN = 2
    """Nobody worked under this ticket. The flag stays as the previous holder left it."""

    def abandoned(self, before: bool) -> bool:
        """Whether the name is abandoned after this departure. `before`: whether it was until then."""
        return before if self is Departure.WITHDRAWN else self is Departure.LOST


class Standing(NamedTuple):
    """An engine's answer about one ticket."""

    place: Place
    fence: int = 0
    abandoned: bool = False
    """The last ticket that held alone was not released. Its work may be half done."""
    recheck: float = math.inf
    """Seconds until a ticket ahead expires unless it is renewed. A waiter that has heard nothing until
    then asks the engine again. A REFUSED ticket of a rate learns when enough permits will have expired."""


class Holder(NamedTuple):
    """A ticket that holds a name, in the form that people may see: without its secret id."""

    owner: Owner
    fence: int
    held_for: float
    """Seconds since the engine admitted it."""
    expires_in: float
    """Seconds until it expires unless renewed."""
    share: Share = ALONE


class Waiter(NamedTuple):
    """A ticket that waits for a name, in the form that people may see: without its secret id."""

    owner: Owner
    fence: int
    waiting_for: float
    """Seconds since it joined the queue."""
    expires_in: float
    """Seconds until it expires unless renewed."""
    share: Share = ALONE


Contender = Holder | Waiter


class Inspection(NamedTuple):
    """The holders and the waiters of a name at one moment."""

    name: str
    holders: tuple[Holder, ...]
    waiters: tuple[Waiter, ...]
    waiting: int
    """The number of all waiters. `waiters` may list only the first of them."""
    fence: int
    """The newest fence of this name, or 0 if the engine remembers none."""
    abandoned: bool
    """The last ticket that held alone was not released."""

    @property
    def contenders(self) -> tuple[Contender, ...]:
        """The holders, then the waiters, in the order of the queue."""
        return *self.holders, *self.waiters
