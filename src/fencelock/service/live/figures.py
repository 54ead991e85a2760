"""The figures of the last hour at this replica, in samples of five seconds, made from its metrics."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from itertools import accumulate
from operator import add, sub
from typing import NamedTuple

from fencelock.observe import families
from fencelock.observe.cells import Counted, Labels
from fencelock.observe.families import Family
from fencelock.service.counters import Counters
from fencelock.service.live.wire import Points, ReplicaFigures

EVERY = 5.0
"""Seconds from one sample to the next."""

_POINTS = 720
"""An hour."""

_OF_CLIENTS = ("enter", "renew", "leave", "evict", "remember", "recall")
"""What clients ask the engine for. Pages and probes cause the rest."""

_Choice = Callable[[Labels], bool]


class _Point(NamedTuple):
    """A sample, in the order of `Points`."""

    time: float
    wait_p50: float | None
    wait_p99: float | None
    grants: float
    waiters: int
    lost: int
    margin: float | None
    engine_p50: float | None
    engine_p99: float | None
    errors: int


class Figures:
    """Samples the counters of a replica. Somebody has to call `sample` every `EVERY` seconds."""

    def __init__(self, replica: str, counters: Counters, now: float) -> None:
        self.started = now
        self._replica = replica
        self._counters = counters
        self._points: deque[_Point] = deque(maxlen=_POINTS)
        self._taken = now
        self._before = _Totals(())

    def sample(self, now: float) -> None:
        """Take a sample of what happened since the last one."""
        seconds, self._taken = now - self._taken, now
        if seconds <= 0:  # somebody has set the clock back
            seconds = EVERY
        totals = _Totals(self._counters.counted())
        before, self._before = self._before, totals
        waits = _less(totals.waits, before.waits)
        margins = _less(totals.margins, before.margins)
        requests = _less(totals.requests, before.requests)
        times = families.TIMES
        self._points.append(
            _Point(
                now,
                quantile(waits, times, 0.5),
                quantile(waits, times, 0.99),
                sum(waits) / seconds,
                totals.waiters,
                totals.lost - before.lost,
                quantile(margins, families.MARGINS, 0.01),
                quantile(requests, times, 0.5),
                quantile(requests, times, 0.99),
                totals.errors - before.errors,
            )
        )

    def since(self, moment: float = 0.0) -> ReplicaFigures:
        """The samples that were taken after this moment."""
        newer = [point for point in self._points if point.time > moment]
        points = Points(*map(list, zip(*newer, strict=True)))
        return ReplicaFigures(self._replica, None, True, started=self.started, points=points)


class _Totals:
    """What was counted since the start, of all engines and groups together."""

    def __init__(self, counted: Iterable[Counted]) -> None:
        series = {each.family: each for each in counted}

        def number(family: Family, chosen: _Choice = lambda labels: True) -> int:
            numbers = series[family].numbers if family in series else {}
            return round(sum(value for labels, value in numbers.items() if chosen(labels)))

        def histogram(family: Family, chosen: _Choice = lambda labels: True) -> list[int]:
            cells = series[family].distributions if family in series else {}
            counts = [0] * (len(family.buckets) + 1)
            for labels, cell in cells.items():
                if chosen(labels):
                    counts = list(map(add, counts, cell.counts))
            return counts

        # Their labels: (engine, kind, group, outcome), and (engine, operation, outcome).
        self.waits = histogram(families.ACQUIRE_WAIT, lambda labels: labels[3] == "granted")
        self.margins = histogram(families.RENEWAL_MARGIN)
        self.requests = histogram(families.ENGINE_REQUEST, _was_answered)
        self.errors = number(families.ENGINE_REQUESTS, _has_failed)
        self.waiters = number(families.WAITERS)
        self.lost = number(families.LEASES_LOST)


def _was_answered(labels: Labels) -> bool:
    """What was cancelled says nothing about the engine."""
    return labels[1] in _OF_CLIENTS and labels[2] != "cancelled"


def _has_failed(labels: Labels) -> bool:
    return labels[1] in _OF_CLIENTS and labels[2] in ("not applied", "unknown")


def _less(counts: Sequence[int], before: Sequence[int]) -> list[int]:
    return list(map(sub, counts, before))


def quantile(counts: Sequence[int], limits: Sequence[float], share: float) -> float | None:
    """The value that this share of all values is not above, from the numbers of values in buckets.

    Within a bucket, the values count as evenly spread. Those in the last bucket, which has no limit, count as
    the last limit. None if there are no values.
    """
    total = sum(counts)
    if not total:
        return None
    wanted = share * total
    for bucket, (count, up_to) in enumerate(zip(counts, accumulate(counts), strict=True)):
        if count and up_to >= wanted:
            if bucket == len(limits):
                break
            lower = limits[bucket - 1] if bucket else 0.0
            return lower + (limits[bucket] - lower) * (wanted - (up_to - count)) / count
    return limits[-1]
