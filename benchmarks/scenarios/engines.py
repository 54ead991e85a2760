"""The engines side by side: a pair without contention, and how long a hand-off takes."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack

from benchmarks.adapters.contract import Turns
from benchmarks.adapters.ours import Fencelock
from benchmarks.crew import Crew
from benchmarks.pairs import pair
from benchmarks.rounds import Details, Table, interleave
from benchmarks.series import Series
from benchmarks.setting import Setting, scenario
from benchmarks.turns import calm

CONTENDERS = 8


def _urls(setting: Setting) -> dict[str, str]:
    """As people run them: what claims to be safe writes to disk, and clusters have more than one server."""
    return {
        "a file": setting.sqlite_url,
        "Redis": setting.redis.url,
        "Redlock, five Redis": setting.redlock.url,
        "etcd, three servers": setting.etcds.url,
        "ZooKeeper, three servers": setting.zookeepers.url,
        "PostgreSQL": setting.postgresql(durable=True).url,
        "MariaDB": setting.mysql(durable=True).url,
    }


@scenario("engines")
def engines(setting: Setting) -> Iterator[Table]:
    urls = _urls(setting)
    yield _pairs(urls, setting.rounds(25, 3), setting.rounds(40, 10))
    yield _hand_offs(urls, setting.rounds(7, 2), setting.seconds(2, 1))


def _pairs(urls: dict[str, str], rounds: int, pairs: int) -> Table:
    taken: dict[str, list[float]] = {label: [] for label in urls}

    def contestant(label: str, turns: Turns) -> Callable[[], float]:
        def run() -> float:
            some = [_timed_us(turns) for _ in range(pairs)]
            taken[label] += some
            return statistics.median(some)

        return run

    with ExitStack() as opened:
        contestants = {}
        for label, url in urls.items():
            turns = Fencelock(url, "pair")
            opened.callback(turns.close)
            contestants[label] = contestant(label, turns)
        notes: list[str] = []
        samples = interleave(contestants, rounds, notes)
    details = {label: {"p99, µs": _p99(taken[label])} for label in samples}
    return Table("Each engine, pair, sync", "µs", "lower", samples, {}, notes, details)


def _timed_us(turns: Turns) -> float:
    start = time.perf_counter_ns()
    pair(turns)
    return (time.perf_counter_ns() - start) / 1e3


def _p99(values: list[float]) -> float:
    return sorted(values)[int(len(values) * 0.99)]


def _hand_offs(urls: dict[str, str], rounds: int, seconds: float) -> Table:
    """From the release until the next holder runs. Each holds for 1 ms, so the next one sleeps by then."""
    series: dict[str, list[Series]] = {label: [] for label in urls}

    def contestant(crew: Crew, label: str) -> Callable[[], float]:
        def run() -> float:
            found = crew.compete(Fencelock, urls[label], "hand-off", CONTENDERS, calm(seconds))
            series[label].append(found)
            return found.latency_us()

        return run

    notes: list[str] = []
    with Crew(CONTENDERS) as crew:
        samples = interleave({label: contestant(crew, label) for label in urls}, rounds, notes)
    details: Details = {
        label: {
            "hand-offs per s": statistics.median(one.per_second() for one in series[label]),
            "wait p99, ms": statistics.median(one.wait_ms(99) for one in series[label]),
            "overlaps": sum(one.overlaps() for one in series[label]),
            "errors": sum(len(one.errors) for one in series[label]),
        }
        for label in samples
    }
    title = f"Each engine, hand-off, {CONTENDERS} processes, 1 ms sections"
    return Table(title, "µs", "lower", samples, {}, notes, details)
