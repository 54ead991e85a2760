"""The facts of a run, simulated or real: attempts, leases, and writes to the storage that they protect.

All times are moments of one clock, in seconds, whatever the clocks of the processes said.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from fencelock.core.ticket import ALONE, Share


@dataclass(slots=True, eq=False)
class Attempt:
    """One try to hold a lock, from the caller's side."""

    process: str
    label: str
    name: str
    ttl: float
    timeout: float
    started: float
    share: Share = ALONE
    got: float = math.inf
    """When the acquire ended, with a lease or without one."""
    ended: float = math.inf
    """When the attempt was over. From then on nothing of it may be left at the engine."""
    outcome: str = "unfinished"


@dataclass(slots=True, eq=False)
class Grant:
    """One lease, and until when its holder relied on it."""

    attempt: Attempt
    fence: int
    granted: float
    believed_until: float
    abandoned: bool
    closed: float = math.inf
    """When the holder stopped relying on it: it began to release, or its process crashed."""
    told: float = math.inf
    """When the holder was told that it is lost."""
    reason: str = ""

    @property
    def believed(self) -> float:
        """The end of the time in which its holder could think that it holds."""
        return min(self.believed_until, self.closed, self.told)

    def __str__(self) -> str:
        return f"{self.attempt.label} of {self.attempt.process} (fence {self.fence})"


class Write(NamedTuple):
    """One write as the storage saw it, in the order of the storage."""

    name: str
    fence: int
    holder: str
    """Tells two holders with the same fence apart."""
    value: int
    replaced: int
    accepted: bool = True
    at: float = 0.0
    process: str = ""


class Storage(Protocol):
    """What is stored behind the locks: a counter for each name, behind a guard that checks fences."""

    @property
    def writes(self) -> Sequence[Write]:
        """All writes, in the order in which the storage took them."""

    def value(self, name: str) -> int:
        """What the counter stands at."""


class Record(Protocol):
    """What happened in a run. `promises.py` reads it when the run is over."""

    @property
    def names(self) -> Sequence[str]: ...

    @property
    def grants(self) -> Sequence[Grant]:
        """The leases, in the order in which their holders learned of them."""

    def acknowledged(self, name: str) -> int:
        """How many writes the storage has confirmed to their writers."""

    def admitted(self, grant: Grant) -> float:
        """When the engine admitted the ticket; or else when its holder learned of it."""

    def forgot(self, name: str, since: float, until: float) -> bool:
        """Whether the engine took this lock from its holder in that time, without breaking a promise."""


@dataclass(frozen=True, slots=True)
class Violation:
    """A promise was broken: what happened, and the grants and writes that show it."""

    text: str
    evidence: Sequence[Grant | Write] = field(default=())

    def __str__(self) -> str:
        return self.text

    def spread(self) -> tuple[float, float]:
        """From when to when it happened, as far as the evidence tells."""
        moments = [
            moment
            for each in self.evidence
            for moment in ([each.at] if isinstance(each, Write) else [each.granted, each.believed])
        ]
        return (min(moments), max(moments)) if moments else (-math.inf, math.inf)

    def length(self) -> float:
        """How long it took, in seconds: the shortest one is the easiest to understand."""
        at, until = self.spread()
        return until - at
