"""Many clients on many names, over 1 to 64 partitions: what the model says, and a simulation of each request.

The simulation knows nothing of the model's formulas. Requests queue at their partition, callers queue at
their name, and each name belongs to the partition that a client with several engines chooses for it.
"""

from __future__ import annotations

import heapq
import statistics
from collections import deque
from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import accumulate
from pathlib import Path
from random import Random
from typing import NamedTuple

from fencelock.cli.charts.draw import draw_curves
from fencelock.engines.routing import _weight
from fencelock.planning.held import Exponential
from fencelock.planning.model import FULL, EngineSpeed, Model
from fencelock.planning.names import Group, Names

NAMES = 100_000
PARTITIONS = (1, 2, 4, 8, 16, 32, 64)
REDIS = EngineSpeed(pair=0.0003, pair_p99=0.001, hand_off=0.0004, pairs_per_second=8_000.0)
"""Assumed figures, for the example: a Redis that is slower than those which we measure."""

DIVIDED = 1_000
PARTS = 100

HEADER = """\
| case | partitions | busiest in use: model | simulated | mean wait: model | simulated | p99: simulated |
|---|--:|--:|--:|--:|--:|--:|"""


class FinerNames(Names):
    """The same names, but each of the most wanted ones is divided into a hundred."""

    @cached_property
    def groups(self) -> list[Group]:
        whole = Names(self.count, self.skew).groups
        parts = [Group(PARTS, group.share / PARTS) for group in whole[:DIVIDED]]
        return sorted([*parts, *whole[DIVIDED:]], key=lambda group: -group.share)


class Case(NamedTuple):
    """What many clients want."""

    title: str
    names: Names
    held: float
    per_second: float
    """In the simulation."""

    def model(self, partitions: int) -> Model:
        return Model(self.names, Exponential(self.held), REDIS, partitions)

    def draw(self, random: Random, clients: int) -> list[int]:
        """The number of the name that each client wants."""
        skew = self.names.skew
        weights = list(accumulate((number + 1) ** -skew for number in range(self.names.count)))
        wanted = random.choices(range(self.names.count), cum_weights=weights, k=clients)
        if not isinstance(self.names, FinerNames):
            return wanted
        return [
            number * PARTS + random.randrange(PARTS)
            if number < DIVIDED
            else number + DIVIDED * PARTS
            for number in wanted
        ]


CASES = (
    Case("all alike, 20 ms", Names(NAMES), 0.02, 40_000.0),
    Case("Zipf, finer, 20 ms", FinerNames(NAMES, 1.0), 0.02, 40_000.0),
    Case("Zipf, 2 ms", Names(NAMES, 1.0), 0.002, 3_500.0),
    Case("Zipf, 20 ms", Names(NAMES, 1.0), 0.02, 400.0),
)


def scale(clients: int, folder: Path | None) -> Iterator[str]:
    """The table, line by line, and a chart."""
    yield HEADER
    limits: dict[str, dict[float, float]] = {case.title: {} for case in CASES}
    for case in CASES:
        random = Random(case.title)
        wanted = case.draw(random, clients)
        for partitions, homes in homes_of(wanted):
            if partitions not in PARTITIONS:
                continue
            model = case.model(partitions)
            limits[case.title][partitions] = FULL * min(model.name_limit, model.engine_limit)
            load = model.at(case.per_second)
            found = simulate(case, partitions, wanted, homes, random)
            cells = (
                f"{case.title}, {case.per_second:,.0f} per second",
                f"{partitions}",
                f"{min(1.0, load.partition_busy or 0.0):.0%}",
                f"{found.busy:.0%}",
                *map(_ms, (load.mean_wait_anywhere, found.mean, found.p99)),
            )
            yield f"| {' | '.join(cells)} |"
    if folder is not None:
        title = f"{clients:,} clients, {NAMES:,} names: what partitions bring"
        picture = draw_curves(title, "partitions", "locks per second", limits, best="higher")
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "limits.svg").write_text(picture, "utf-8")


def _ms(seconds: float) -> str:
    return "no end" if seconds == float("inf") else f"{seconds * 1e3:,.2f} ms"


def homes_of(wanted: Sequence[int]) -> Iterator[tuple[int, dict[int, int]]]:
    """For each number of partitions, where the names live: exactly as in a client with so many engines."""
    homes = dict.fromkeys(wanted, 0)
    best = dict.fromkeys(wanted, b"")
    for partition in range(max(PARTITIONS)):
        for number in homes:
            weight = _weight(f"name:{number}", partition)
            if weight > best[number]:
                best[number], homes[number] = weight, partition
        yield partition + 1, dict(homes)


class Found(NamedTuple):
    """What was simulated."""

    busy: float
    """The utilisation of the busiest partition."""
    mean: float
    p99: float


def simulate(
    case: Case, partitions: int, wanted: Sequence[int], homes: dict[int, int], random: Random
) -> Found:
    """Play every client: it comes once, at a random moment, and waits until it has its lock."""
    request = 2 * REDIS.pairs_per_second
    free_at, worked = [0.0] * partitions, [0.0] * partitions
    queues: dict[int, deque[float]] = {}
    """The names that are held, and when each waiter came."""
    releases: list[tuple[float, int]] = []
    waits: list[float] = []

    def serve(partition: int, moment: float) -> float:
        """Let a partition do a request. Returns how long it took, with its wait for others."""
        length = random.expovariate(request)
        worked[partition] += length
        free_at[partition] = max(free_at[partition], moment) + length
        return free_at[partition] - moment

    def grant(name: int, came: float, got: float) -> None:
        waits.append(got - came)
        heapq.heappush(releases, (got + random.expovariate(1 / case.held), name))

    def release(moment: float, name: int) -> None:
        delay = serve(homes[name], moment)
        if queue := queues[name]:
            grant(name, queue.popleft(), moment + REDIS.hand_off + delay - 1 / request)
        else:
            del queues[name]

    moment = 0.0
    for name in wanted:
        moment += random.expovariate(case.per_second)
        while releases and releases[0][0] <= moment:
            release(*heapq.heappop(releases))
        delay = serve(homes[name], moment)
        if name in queues:
            queues[name].append(moment)
        else:
            queues[name] = deque()
            grant(name, moment, moment + REDIS.pair / 2 + delay - 1 / request)
    busy = min(1.0, max(worked) / moment)  # more is left over for later
    while releases:
        release(*heapq.heappop(releases))
    waits.sort()
    return Found(busy, statistics.fmean(waits), waits[int(0.99 * len(waits))])
