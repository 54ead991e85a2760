"""Transactions as their tickets show them, and which transaction must give way.

The age of a transaction is the fence of its first ticket. It keeps its age when it is tried again, so one
day it is the oldest and gets through. Its age is compared with the ages of *all* transactions ahead of it
in the queue, not only of the holders, because it waits for all of them.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from fencelock.core.ticket import Contender, Inspection

POLICIES = ("wait-die", "wound-wait", "timeout", "ordered", "detect")

_PREFIX = "tx"


class Stamp(NamedTuple):
    """What a transaction writes onto its tickets."""

    id: str
    attempt: int
    age: int
    """0 on its first ticket, whose fence is the age."""

    def pack(self) -> str:
        """The text for `Owner.data` of the ticket."""
        return f"{_PREFIX} {self.id} {self.attempt} {self.age}"

    @classmethod
    def of(cls, contender: Contender) -> Stamp | None:
        """The stamp on a ticket, or None if the ticket belongs to no transaction."""
        match contender.owner.data.split(" "):
            case [prefix, id, attempt, age] if prefix == _PREFIX:
                return cls(id, int(attempt), int(age) or contender.fence)
        return None

    def older_than(self, other: Stamp) -> bool:
        """Compare by age. Between two of the same age, the id decides."""
        return (self.age, self.id) < (other.age, other.id)


def signpost_of(id: str) -> str:
    """The name that a transaction holds while it waits: there it says what it waits for."""
    return f"{_PREFIX} {id} (waits)"


def bell_of(stamp: Stamp) -> str:
    """The name by which an older transaction wakes this one."""
    return f"{_PREFIX} {stamp.id}.{stamp.attempt} (bell)"


def is_sign(name: str) -> bool:
    """Whether a name is one of these two. They protect nothing, so people need not see them."""
    return name.startswith(f"{_PREFIX} ") and name.endswith((" (waits)", " (bell)"))


def ahead(seen: Inspection, fence: int) -> list[tuple[Contender, Stamp]]:
    """The transactions ahead of a fence. Tickets without a stamp are left out: they end by themselves."""
    stamped = ((each, Stamp.of(each)) for each in seen.contenders if each.fence < fence)
    return [(each, stamp) for each, stamp in stamped if stamp is not None]


def must_die(mine: Stamp, others: Iterable[Stamp]) -> bool:
    """wait-die: a transaction waits only if it is older than all transactions ahead of it."""
    return any(other.older_than(mine) for other in others)


def to_wound(mine: Stamp, others: Iterable[Stamp]) -> list[Stamp]:
    """wound-wait: the younger transactions ahead, which must give way."""
    return [other for other in others if mine.older_than(other)]
