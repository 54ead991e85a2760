"""Turns the samples of the workers into figures."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

from fencelock.cli.bench.worker import Samples


class Figure(NamedTuple):
    """One row of the result: durations in seconds, and how many there were in a second."""

    key: str
    what: str
    total: int
    p50: float
    p99: float
    per_second: float | None
    """None where the benchmark itself decides how many there are."""


def durations(key: str, what: str, workers: Sequence[Samples]) -> Figure:
    """How long each sample took, and how many per second all workers made together."""
    began = [at for samples in workers for at in samples.began]
    ended = [at for samples in workers for at in samples.ended]
    spans = [end - begin for begin, end in zip(began, ended, strict=True)]
    total = sum(samples.each * len(samples.began) for samples in workers)
    return _figure(key, what, total, spans, max(ended) - min(began))


class Turn(NamedTuple):
    """One worker's turn with a lock that all of them want."""

    granted: float
    released: float
    asked: float
    worker: int


def turns_of(workers: Sequence[Samples]) -> list[Turn]:
    """The turns of all workers, in the order of their grants."""
    return sorted(
        Turn(granted, released, asked, worker)
        for worker, samples in enumerate(workers)
        for asked, granted, released in zip(*samples[:3], strict=True)
    )


def waiting(key: str, what: str, turns: Sequence[Turn]) -> Figure:
    """How long a worker waits for its turn, and how often per second the lock changes hands."""
    changes = sum(one.worker != other.worker for one, other in pairwise(turns))
    elapsed = max(each.released for each in turns) - turns[0].granted
    return _figure(key, what, changes, [each.granted - each.asked for each in turns], elapsed)


def hand_offs(key: str, what: str, turns: Sequence[Turn]) -> Figure | None:
    """How long it takes from the call of `release` until the next waiter has the lock.

    None if no worker ever had to wait, which happens on a machine that stalls.
    """
    spans = [
        other.granted - one.released
        for one, other in pairwise(turns)
        if one.worker != other.worker and other.asked < one.released
    ]
    return _figure(key, what, len(spans), spans, None) if spans else None


def overlaps(turns: Sequence[Turn]) -> int:
    """How often a worker got the lock before the previous holder released it."""
    return sum(other.granted < one.released for one, other in pairwise(turns))


def _figure(key: str, what: str, total: int, spans: list[float], elapsed: float | None) -> Figure:
    spans.sort()
    p50, p99 = (spans[math.ceil(part * (len(spans) - 1))] for part in (0.5, 0.99))
    return Figure(key, what, total, p50, p99, total / elapsed if elapsed else None)
