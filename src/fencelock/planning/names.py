"""How callers spread over names, and names over partitions."""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import cached_property
from typing import NamedTuple

_ONE_BY_ONE = 1_000
"""So many of the most wanted names are looked at one by one, the rest in groups of similar names."""

_GROWTH = 1.01


class Group(NamedTuple):
    """Names that are wanted about equally often."""

    names: int
    share: float
    """The part of all callers that want any one of them."""


class Names:
    """A number of names. The n-th is wanted 1/n^skew as often as the first (Zipf); 0: all alike."""

    def __init__(self, count: int, skew: float = 0.0) -> None:
        self.count = count
        self.skew = skew

    @cached_property
    def groups(self) -> list[Group]:
        """All names, the most wanted first."""
        weights = list(self._weights())
        total = sum(names * weight for names, weight in weights)
        return [Group(names, weight / total) for names, weight in weights]

    def _weights(self) -> Iterator[tuple[int, float]]:
        if not self.skew:
            yield self.count, 1.0
            return
        first = 1
        while first <= self.count:
            after = first + 1 if first <= _ONE_BY_ONE else math.ceil(first * _GROWTH)
            after = min(after, self.count + 1)
            middle = (first + after - 1) / 2
            yield after - first, middle**-self.skew
            first = after

    @cached_property
    def _unevenness(self) -> float:
        """The sum of the squares of all shares but the largest."""
        return sum(group.names * group.share**2 for group in self.groups) - self.busiest**2

    @property
    def busiest(self) -> float:
        """The share of the most wanted name."""
        return self.groups[0].share

    def of_partition(self, partitions: int) -> float:
        """About the largest part of all callers that one of several partitions gets.

        It has the most wanted name, its part of the others, and a little more than that: the names are
        spread by a hash, which is chance.
        """
        chance = math.sqrt(2 * math.log(partitions) * self._unevenness / partitions)
        return min(1.0, self.busiest + (1 - self.busiest) / partitions + chance)
