"""The writers of `./bench --only writers` lose no update, whichever way they write."""

from __future__ import annotations

import time

import psycopg

from benchmarks import writers
from benchmarks.scenarios.writers import SIZES, WAYS
from benchmarks.writers import Tally, Task

WRITERS = 3


def test_no_way_loses_an_update(postgresql_url: str) -> None:
    """One test, because the ways share a table, and tests may run at the same time."""
    with psycopg.connect(postgresql_url, autocommit=True) as connection:
        writers.guard.create(connection)
        connection.execute(writers.TABLE)
        try:
            connection.execute("INSERT INTO written VALUES (1, 0, 0)")
            written = 0
            for way in WAYS:
                tallies = _written(Task(way, postgresql_url, WRITERS, work=0))
                written += WRITERS + sum(tally.updates for tally in tallies)  # each has warmed up
                stored = connection.execute("SELECT value FROM written").fetchone()
                assert stored == (written,), way.label
                assert all(tally.attempts >= len(tally.seconds) for tally in tallies)
        finally:
            connection.execute("DROP TABLE written")


def _written(task: Task) -> list[Tally]:
    writers.connect(task)
    try:
        return writers.write(time.monotonic(), 0.05)
    finally:
        writers.close()


def test_writers_are_shared_out() -> None:
    for size in SIZES:
        shares = writers.shared_out(size)
        assert sum(shares) == size
        assert max(shares) - min(shares) <= 1
        assert len(shares) <= writers.PROCESSES
