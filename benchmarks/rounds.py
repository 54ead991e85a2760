"""Rounds: every contestant once in each, in random order, so that a noisy moment hits them all alike."""

from __future__ import annotations

import gc
import random
import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal

Samples = dict[str, list[float]]


def interleave(contestants: Mapping[str, Callable[[], float]], rounds: int) -> Samples:
    """What each contestant measured in each round."""
    samples: Samples = {label: [] for label in contestants}
    for _ in range(rounds):
        for label in random.sample(list(contestants), len(contestants)):
            gc.collect()
            samples[label].append(contestants[label]())
    return samples


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
    """What one comparison came to."""

    title: str
    unit: str
    better: Literal["lower", "higher"]
    samples: Samples
    """By contestant, one value per round. The first contestant is the one the others are compared with."""
    goals: Mapping[str, float] = field(default_factory=dict)
    """Against whom we want to be how many times as good, at the least."""
    notes: list[str] = field(default_factory=list)

    def median(self, label: str) -> float:
        return statistics.median(self.samples[label])

    def ratios(self, label: str) -> list[float]:
        """Round by round, how many times as good as this contestant the first one was."""
        ours = next(iter(self.samples.values()))
        pairs = zip(ours, self.samples[label], strict=True)
        if self.better == "higher":
            return [_quotient(mine, other) for mine, other in pairs]
        return [_quotient(other, mine) for mine, other in pairs]


def _quotient(a: float, b: float) -> float:
    return a / b if b else float("inf")
