"""From what the workers have measured to figures."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

from fencelock.cli.bench.job import Samples


class Figure(NamedTuple):
    """One row: how long it takes, in seconds, and how many of it there are in a second."""

    key: str
    what: str
    total: int
    p50: float
    p99: float
    per_second: float | None
    """None where they come as rarely as was asked for."""


def simple(key: str, what: str, crew: Sequence[Samples]) -> Figure:
    """How long each one took, and how many all workers did together."""
    spans = [span for samples in crew for span in samples.spans]
    total = sum(samples.each * len(samples.began) for samples in crew)
    lasted = _lasted(
        [at for each in crew for at in each.began], [at for each in crew for at in each.ended]
    )
    return _figure(key, what, total, spans, lasted)


class Turn(NamedTuple):
    """One worker's turn with a lock that all of them want."""

    granted: float
    released: float
    asked: float
    worker: int


def in_order(crew: Sequence[Samples]) -> list[Turn]:
    """The turns of all workers: of two that hold one after the other, the clock says who was first."""
    return sorted(
        Turn(granted, released, asked, worker)
        for worker, samples in enumerate(crew)
        for asked, granted, released in zip(*samples[:3], strict=True)
    )


def waiting(key: str, what: str, turns: Sequence[Turn]) -> Figure:
    """How long one waits for one's turn, and how often the lock changes hands in a second."""
    changes = sum(one.worker != other.worker for one, other in pairwise(turns))
    lasted = _lasted([each.granted for each in turns], [each.released for each in turns])
    return _figure(key, what, changes, [each.granted - each.asked for each in turns], lasted)


def passing(key: str, what: str, turns: Sequence[Turn]) -> Figure | None:
    """How long it takes from the call of `release` until the next one, that waits for it, goes on;
    None if nobody ever had to wait, as may be on a machine that stalls."""
    spans = [
        other.granted - one.released
        for one, other in pairwise(turns)
        if one.worker != other.worker and other.asked < one.released
    ]
    return _figure(key, what, len(spans), spans, None) if spans else None


def overlaps(turns: Sequence[Turn]) -> int:
    """How often one had the lock before another, who still held it, gave it back."""
    return sum(other.granted < one.released for one, other in pairwise(turns))


def _lasted(began: Sequence[float], ended: Sequence[float]) -> float:
    return max(ended, default=0.0) - min(began, default=0.0)


def _figure(key: str, what: str, total: int, spans: list[float], lasted: float | None) -> Figure:
    spans.sort()
    p50, p99 = (spans[math.ceil(part * (len(spans) - 1))] for part in (0.5, 0.99))
    return Figure(key, what, total, p50, p99, total / lasted if lasted else None)
