"""Many writers of one row: under a lock, under the row's lock, with optimistic retries, in one statement."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from itertools import chain

import psycopg

from benchmarks import writers
from benchmarks.crew import Crew
from benchmarks.rounds import Table, interleave
from benchmarks.setting import Setting, scenario
from benchmarks.writers import Atomic, Locked, Optimistic, RowLocked, Tally, Task, Way, shared_out
from tests.servers_postgresql import PostgresqlServer

SIZES = (1, 2, 4, 8, 16, 32, 64)
WAYS = (Locked, RowLocked, Optimistic, Atomic)
WORK_SECONDS = 0.005


@scenario("writers")
def many_writers(setting: Setting) -> Iterator[Table]:
    server = setting.postgresql(durable=False)
    with psycopg.connect(server.url) as connection:
        writers.guard.create(connection)
        connection.execute(writers.TABLE)
        connection.execute("INSERT INTO written VALUES (1, 0, 0)")
    with Crew(writers.PROCESSES) as crew:
        yield from _compare(setting, crew, server, 0, WAYS)
        # One statement has no room for work.
        yield from _compare(setting, crew, server, WORK_SECONDS, WAYS[:-1])


def _compare(
    setting: Setting, crew: Crew, server: PostgresqlServer, work: float, ways: Sequence[type[Way]]
) -> Iterator[Table]:
    """All sizes and ways in each round, so that the points of a curve can be compared, too."""
    seconds, sizes = setting.seconds(1.5, 0.5), SIZES[::3] if setting.quick else SIZES
    found: dict[str, list[Tally]] = {_name(size, way): [] for size in sizes for way in ways}

    def contestant(size: int, way: type[Way]) -> Callable[[], float]:
        def run() -> float:
            tallies = _contest(crew, server, way, size, work, seconds)
            found[_name(size, way)] += tallies
            return sum(len(tally.seconds) for tally in tallies) / seconds

        return run

    notes: list[str] = []
    contestants = {_name(size, way): contestant(size, way) for size in sizes for way in ways}
    samples = interleave(contestants, setting.rounds(5, 2), notes)
    assert not notes, notes  # nobody is left out here
    for size in sizes:
        what = f"{work * 1e3:g} ms of work" if work else "no work"
        yield Table(
            f"PostgreSQL, {size} writers of one row, {what}",
            "per s",
            "higher",
            {way.label: samples[_name(size, way)] for way in ways},
            details={way.label: _detailed(found[_name(size, way)]) for way in ways},
            chart="" if work else "writers",
            at=size,
        )


def _name(size: int, way: type[Way]) -> str:
    return f"{size} writers, {way.label}"


def _contest(
    crew: Crew, server: PostgresqlServer, way: type[Way], size: int, work: float, seconds: float
) -> list[Tally]:
    """Let so many writers write for a while, and check that no update was lost."""
    shares = shared_out(size)
    before = _value(server)
    crew.call(writers.connect, [(Task(way, server.url, share, work),) for share in shares])
    start = time.monotonic() + 0.1  # all threads have started by then
    told = crew.call(writers.write, [(start, seconds)] * len(shares))
    crew.call(writers.close, [()] * len(shares))
    tallies = list(chain.from_iterable(told))
    written = size + sum(tally.updates for tally in tallies)  # each has written once to warm up
    assert _value(server) - before == written, f"{way.label} lost updates"
    return tallies


def _value(server: PostgresqlServer) -> int:
    ((value,),) = server.execute("SELECT value FROM written")
    return int(value)


def _detailed(tallies: list[Tally]) -> dict[str, float]:
    seconds = sorted(chain.from_iterable(tally.seconds for tally in tallies))
    if not seconds:
        return {}
    return {
        "attempts per update": sum(tally.attempts for tally in tallies) / len(seconds),
        "p50, ms": statistics.median(seconds) * 1e3,
        "p99, ms": seconds[int(len(seconds) * 0.99)] * 1e3,
    }
