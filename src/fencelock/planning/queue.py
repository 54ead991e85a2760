"""The queue of one name, in which one caller at a time is served: M/G/1, in the words of queueing theory.

Callers arrive at random moments (Poisson). Each is served for the time that it holds the lock and the
hand-off to the next. Whoever comes first is served first, and nobody leaves the queue.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from itertools import pairwise
from operator import mul

from fencelock.planning.held import Held

_STEPS = 600
"""How finely a distribution is divided, at least. With more, the p99 moves by less than one percent."""

_STEPS_PER_REST = 5

_NEARLY_FULL = 0.97
"""From here on, the wait is nearly exponential for every distribution, and the grid would be too large."""


def mean_wait(per_second: float, served: Held) -> float:
    """The mean time in the queue (Pollaczek and Khinchine). Infinite if more come than can be served."""
    busy = per_second * served.mean
    return per_second * served.square / 2 / (1 - busy) if busy < 1 else math.inf


def wait_percentile(per_second: float, served: Held, part: float = 0.99) -> float:
    """The time in the queue that this part of all callers does not exceed. Infinite as the mean is."""
    busy = per_second * served.mean
    if busy >= 1:
        return math.inf
    if 1 - busy >= part:  # so many find the lock free
        return 0.0
    guess = mean_wait(per_second, served) / busy * math.log(busy / (1 - part))
    if busy >= _NEARLY_FULL:
        return guess
    horizon = 1.3 * guess
    while (found := _percentile(busy, served, part, horizon)) is None:
        horizon *= 2
    return found


def _percentile(busy: float, served: Held, part: float, horizon: float) -> float | None:
    """The percentile, or None if it is beyond the horizon.

    The wait is a sum of rests: what was left of the service under way when the caller came, and when that
    caller came, and so on, a geometric number of them. The loop adds them up on a grid (Panjer's recursion).
    """
    rest = served.square / served.mean / 2
    steps = max(_STEPS, math.ceil(_STEPS_PER_REST * horizon / rest))
    step = horizon / steps
    areas = [served.area((number + 0.5) * step) / served.mean for number in range(steps)]
    rests = [areas[0], *(after - before for before, after in pairwise(areas))]
    rests.reverse()  # so that the sum below runs over two plain slices
    scale = 1 / (1 - busy * rests[-1])
    waits = [(1 - busy) * scale]
    total = waits[0]
    while total < part:
        if len(waits) == steps:
            return None
        waits.append(busy * scale * sum(map(mul, rests[-1 - len(waits) : -1], waits)))
        total += waits[-1]
    over = (total - part) / waits[-1]
    return (len(waits) - 0.5 - over) * step


def replay(callers: Iterable[tuple[float, float]]) -> Iterator[float]:
    """The time in the queue of each caller, from when it came and how long it is served (Lindley)."""
    free_at = -math.inf
    for came, served in callers:
        wait = max(0.0, free_at - came)
        yield wait
        free_at = came + wait + served
