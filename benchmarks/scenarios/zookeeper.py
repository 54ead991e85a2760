"""ZooKeeper: what a pair costs, and how fast a lock changes hands."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator

from benchmarks.adapters.contract import Turns
from benchmarks.adapters.kazoo_ import BarePair, KazooLock
from benchmarks.adapters.ours import Holdfast
from benchmarks.crew import Crew, Pace, Series
from benchmarks.rounds import Table, interleave
from benchmarks.scenarios.redis_pair import measure_pairs
from benchmarks.setting import Setting, scenario

WAITERS = 32


@scenario("zookeeper-pair")
def zookeeper_pair(setting: Setting) -> Iterator[Table]:
    # All on one node: a leader answers sooner than a follower.
    for node in ("leader", "follower"):
        url = f"zookeeper://{getattr(setting.zookeeper, node)().address}"
        samples = measure_pairs(
            (Holdfast, KazooLock, BarePair),
            url,
            rounds=setting.rounds(25, 5),
            pairs=setting.rounds(100, 40),
        )
        goals = {KazooLock.label: 1.0, BarePair.label: 0.87}
        yield Table(f"ZooKeeper pair, sync, at a {node}", "µs", "lower", samples, goals)


@scenario("zookeeper-hand-off")
def zookeeper_hand_off(setting: Setting) -> Iterator[Table]:
    url, seconds = setting.zookeeper.url, setting.seconds(2.0, 0.7)
    series: dict[str, list[Series]] = {}

    def contestant(crew: Crew, adapter: type[Turns]) -> Callable[[], float]:
        def run() -> float:
            turns = crew.compete(adapter, url, "busy", WAITERS, Pace(seconds))
            series.setdefault(adapter.label, []).append(turns)
            return turns.per_second()

        return run

    with Crew(WAITERS) as crew:
        contestants = {one.label: contestant(crew, one) for one in (Holdfast, KazooLock)}
        samples = interleave(contestants, setting.rounds(9, 3))
    fairness = ", ".join(
        f"{label} {statistics.median(one.fairness() for one in all_):.2f}"
        for label, all_ in series.items()
    )
    title = f"ZooKeeper hand-off, {WAITERS} processes"
    goals = {KazooLock.label: 1.0}
    yield Table(title, "per s", "higher", samples, goals, [f"Jain index: {fairness}"])
