"""Where the counts are: one cell for each metric and each combination of its labels."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable
from math import inf
from typing import NamedTuple

from fencelock.observe.families import Family
from fencelock.observe.traces import Trace

Labels = tuple[str, ...]


class Distribution(NamedTuple):
    """What the cell of a histogram had at one moment."""

    counts: list[int]
    sum: float
    exemplars: dict[int, Exemplar]


class Exemplar(NamedTuple):
    """A value, and the trace in which it was seen."""

    value: float
    trace: Trace
    seen_at: float
    """By the clock on the wall."""


class Number:
    """The cell of a counter or a gauge."""

    __slots__ = ("value",)

    def __init__(self, family: Family, labels: Labels) -> None:
        self.value = 0.0

    def add(self, amount: float = 1.0) -> None:
        """It happened once more; or it took so long this time."""
        self.value += amount

    def set(self, value: float) -> None:
        """This is the value of the gauge now."""
        self.value = value


class Histogram:
    """How many values were in which bucket."""

    __slots__ = ("_new", "_sum", "add", "counts", "exemplars", "limits")

    add: Callable[[float], None]
    """Count a value."""

    def __init__(self, family: Family, labels: Labels) -> None:
        self.limits = family.buckets
        self.counts = [0] * (len(self.limits) + 1)
        """How many values were in each bucket. The last bucket has no limit."""
        self._sum = 0.0
        # Values are put into their buckets together, because that costs a third.
        self._new: list[float] = []
        self.add = self._new.append
        self.exemplars: dict[int, Exemplar] = {}
        """The last value that has a trace, for some buckets."""

    def bucket_of(self, value: float) -> int:
        """The number of the bucket that a value belongs to."""
        return bisect_left(self.limits, value)

    def settle(self) -> int:
        """Put the new values into their buckets. Returns how many there were."""
        count = len(new := self._new)
        if count:
            self._sum += sum(new)
            new.sort()
            below = 0
            for bucket, limit in enumerate((*self.limits, inf)):
                up_to = bisect_right(new, limit, below)
                self.counts[bucket] += up_to - below
                below = up_to
            new.clear()
        return count

    def copy(self) -> Distribution:
        """What it has now."""
        self.settle()
        return Distribution(self.counts.copy(), self._sum, self.exemplars.copy())


class Counted(NamedTuple):
    """All series of one metric, at one moment."""

    family: Family
    numbers: dict[Labels, float]
    """Of a counter or a gauge."""
    distributions: dict[Labels, Distribution]
    """Of a histogram."""
