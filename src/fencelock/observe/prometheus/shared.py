"""Counts that other processes can read: for prometheus_client's multiprocess mode.

Its `MultiProcessCollector` knows no collectors. It reads files in which each process has its numbers. Here
every number is also one of prometheus_client's own values. So it is in the same files as the metrics of the
program, and prometheus_client knows how to write them and what to do after a fork.
"""

from __future__ import annotations

from math import inf
from typing import Any

from prometheus_client import values
from prometheus_client.utils import floatToGoString

from fencelock.observe.cells import Histogram, Labels, Number
from fencelock.observe.families import Family


class SharedNumber(Number):
    """The cell of a counter or a gauge, which other processes can read."""

    __slots__ = ("_shared",)

    def __init__(self, family: Family, labels: Labels) -> None:
        super().__init__(family, labels)
        self._shared = _value(family, family.name, labels)
        if family.type == "gauge":  # an earlier process may have had our number, and left a file
            self._shared.set(0)

    def add(self, amount: float = 1.0) -> None:
        self.value += amount
        self._shared.inc(amount)

    def set(self, value: float) -> None:
        if value != self.value:
            self.value = value
            self._shared.set(value)


class SharedHistogram(Histogram):
    """The cell of a histogram, which other processes can read."""

    __slots__ = ("_shared", "_shared_sum")

    def __init__(self, family: Family, labels: Labels) -> None:
        super().__init__(family, labels)
        self._shared_sum = _value(family, f"{family.name}_sum", labels)
        self._shared = [
            _value(family, f"{family.name}_bucket", labels, ("le", limit))
            for limit in limits_of(family)
        ]
        self.add = self._share

    def _share(self, value: float) -> None:
        self._new.append(value)
        self._shared[self.bucket_of(value)].inc(1)
        self._shared_sum.inc(value)


def limits_of(family: Family) -> list[str]:
    """The limits of the buckets of a histogram, as Prometheus writes them."""
    return [floatToGoString(limit) for limit in (*family.buckets, inf)]  # type: ignore[no-untyped-call]


def _value(family: Family, name: str, labels: Labels, *more: tuple[str, str]) -> Any:
    """A number in the file of this process."""
    metric = family.name.removesuffix("_total") if family.type == "counter" else family.name
    pairs = [*zip(family.labels, labels, strict=True), *more]
    return values.ValueClass(
        family.type,
        metric,
        name,
        [label for label, _ in pairs],
        [text for _, text in pairs],
        family.help,
        multiprocess_mode=f"live{family.merged_by}",
    )
