"""SQLite: one machine, no server."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

from benchmarks.adapters.contract import Turns
from benchmarks.adapters.files import BareRow, FileLock, Flock
from benchmarks.adapters.ours import Holdfast, HoldfastReused
from benchmarks.crew import Crew, Series, calm, wait_once
from benchmarks.rounds import Table, interleave
from benchmarks.scenarios.redis_pair import measure_pairs
from benchmarks.setting import Setting, scenario

SIZES = (2, 8)


@scenario("sqlite-pair")
def sqlite_pair(setting: Setting) -> Iterator[Table]:
    rounds, pairs = setting.rounds(25, 7), setting.rounds(500, 200)
    adapters = (Holdfast, HoldfastReused, FileLock, BareRow)
    samples = measure_pairs(adapters, setting.sqlite_url, rounds=rounds, pairs=pairs)
    goals = {BareRow.label: 0.6}
    yield Table("SQLite pair, sync", "µs", "lower", samples, goals)


@scenario("sqlite-hand-off")
def sqlite_hand_off(setting: Setting) -> Iterator[Table]:
    with Crew(max(SIZES)) as crew:
        for size in SIZES:
            yield from _hand_off(setting, crew, size)
        yield _idle(setting, crew, max(SIZES))


def _hand_off(setting: Setting, crew: Crew, size: int) -> Iterator[Table]:
    url, seconds = setting.sqlite_url, setting.seconds(0.5, 0.25)
    series: dict[str, list[Series]] = {}

    def contestant(adapter: type[Turns]) -> Callable[[], float]:
        def run() -> float:
            turns = crew.compete(adapter, url, f"calm-{size}", size, calm(seconds))
            series.setdefault(adapter.label, []).append(turns)
            return turns.per_second()

        return run

    contestants = {adapter.label: contestant(adapter) for adapter in (Holdfast, FileLock, Flock)}
    samples = interleave(contestants, setting.rounds(9, 3))
    yield Table(f"SQLite hand-off, {size} processes, 1 ms sections", "per s", "higher", samples)
    latencies = {label: [one.latency_us() for one in all_] for label, all_ in series.items()}
    in_order = {label: latencies[label] for label in contestants}
    yield Table(f"SQLite release → next holder, {size} processes", "µs", "lower", in_order)


def _idle(setting: Setting, crew: Crew, size: int) -> Table:
    """What it costs to wait, without anything to wait for."""
    seconds = setting.seconds(5, 1)

    def contestant(adapter: type[Turns]) -> Callable[[], float]:
        def run() -> float:
            name = crew.connect(adapter, setting.sqlite_url, "idle", size)
            holder = adapter(setting.sqlite_url, name)
            holder.acquire()
            crew.begin(wait_once, [()] * size)
            time.sleep(seconds)
            holder.release()
            used: float = sum(crew.answers(size))
            holder.close()
            return used / seconds * 1e3

        return run

    contestants = {adapter.label: contestant(adapter) for adapter in (Holdfast, FileLock)}
    samples = interleave(contestants, setting.rounds(3, 1))
    return Table(f"SQLite, {size} idle waiters together", "ms of CPU per s", "lower", samples)
