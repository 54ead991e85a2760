"""Rounds: each contestant runs once per round, in random order, so that noise affects all of them alike."""

from __future__ import annotations

import gc
import random
import signal
import statistics
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Literal

Samples = dict[str, list[float]]
Details = dict[str, dict[str, float]]

PATIENCE_SECONDS = 90
"""Time limit of one contestant in one round. Some rivals hang."""


def interleave(
    contestants: Mapping[str, Callable[[], float]],
    rounds: int,
    notes: list[str],
    *,
    warm: bool = False,
) -> Samples:
    """Return the value of each contestant in each round. With `warm`, the first round is not counted.

    A contestant that fails is left out, and a note says why. If the first one fails, it raises: that is ours.
    """
    samples: Samples = {label: [] for label in contestants}
    ours = next(iter(contestants))
    for turn in range(-1 if warm else 0, rounds):
        for label in random.sample(list(samples), len(samples)):
            gc.collect()
            try:
                with patience():
                    value = contestants[label]()
            except Exception as error:
                if label == ours:
                    raise
                notes.append(left_out(label, error))
                del samples[label]
                continue
            if turn >= 0:
                samples[label].append(value)
    return samples


def left_out(label: str, error: BaseException) -> str:
    return f"{label} is left out: {type(error).__name__}: {error}".rstrip(": ")


@contextmanager
def patience(seconds: float = PATIENCE_SECONDS) -> Iterator[None]:
    """Interrupt a block that takes too long, wherever this thread is blocked."""

    def give_up(*_: object) -> None:
        raise TimeoutError(f"no end after {seconds:g} s")

    before = signal.signal(signal.SIGALRM, give_up)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def median_us(act: Callable[[], object], times: int) -> float:
    """The median time of one call, in µs."""
    clock = time.perf_counter_ns
    taken = []
    for _ in range(times):
        start = clock()
        act()
        taken.append(clock() - start)
    return statistics.median(taken) / 1e3


@dataclass
class Table:
    """The result of one comparison."""

    title: str
    unit: str
    better: Literal["lower", "higher"]
    samples: Samples
    """By contestant, one value per round. The others are compared with the first contestant."""
    goals: Mapping[str, float] = field(default_factory=dict)
    """By contestant, how many times as good as it we want to be, at least."""
    notes: list[str] = field(default_factory=list)
    details: Details = field(default_factory=dict)
    """More measurements of each contestant, by the heading of a column."""
    chart: str = ""
    """The chart that shows it, if any: see `report/pictures.py`."""
    at: float | None = None
    """Its place on the chart's horizontal axis, if the chart has curves."""

    @property
    def ours(self) -> str:
        return next(iter(self.samples))

    def median(self, label: str) -> float:
        return statistics.median(self.samples[label])

    def ratios(self, label: str) -> list[float]:
        """Per round, how many times as good as this contestant the first one was."""
        pairs = zip(self.samples[self.ours], self.samples[label], strict=True)
        if self.better == "higher":
            return [_quotient(mine, other) for mine, other in pairs]
        return [_quotient(other, mine) for mine, other in pairs]


def _quotient(a: float, b: float) -> float:
    return a / b if b else float("inf")
