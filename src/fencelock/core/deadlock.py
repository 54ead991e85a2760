"""Transactions as others see them, and who has to give way to whom.

A transaction is as old as the fence of its first ticket, and stays so when it is tried again: so it is
the oldest some day, and gets through. Ages are compared with *everyone ahead*, not only with who holds:
in a queue one waits for all of them.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from fencelock.core.ticket import Contender, Inspection

POLICIES = ("wait-die", "wound-wait", "timeout", "ordered", "detect")

_WORD = "tx"


class Stamp(NamedTuple):
    """What a transaction writes onto its tickets."""

    id: str
    attempt: int
    age: int
    """0 on its first ticket, whose fence is the age."""

    def pack(self) -> str:
        """As `Owner.data` of the ticket has it."""
        return f"{_WORD} {self.id} {self.attempt} {self.age}"

    @classmethod
    def of(cls, contender: Contender) -> Stamp | None:
        """The transaction behind a ticket; None if there is none."""
        match contender.owner.data.split(" "):
            case [word, id, attempt, age] if word == _WORD:
                return cls(id, int(attempt), int(age) or contender.fence)
        return None

    def older_than(self, other: Stamp) -> bool:
        """Age decides, and between two of one age the id."""
        return (self.age, self.id) < (other.age, other.id)


def ahead(seen: Inspection, fence: int) -> list[tuple[Contender, Stamp]]:
    """The transactions that stand ahead of a fence. All others end by themselves."""
    stamped = ((one, Stamp.of(one)) for one in seen.contenders if one.fence < fence)
    return [(one, stamp) for one, stamp in stamped if stamp is not None]


def must_die(mine: Stamp, others: Iterable[Stamp]) -> bool:
    """wait-die: wait only if older than everyone ahead."""
    return any(other.older_than(mine) for other in others)


def to_wound(mine: Stamp, others: Iterable[Stamp]) -> list[Stamp]:
    """wound-wait: the younger ones ahead, who have to give way."""
    return [other for other in others if mine.older_than(other)]
