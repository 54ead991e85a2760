"""Writers that all change one row of PostgreSQL, in the ways of docs/do-you-need-a-lock.md.

Each adds one to the same number: it reads the number, works for a while, and writes the number plus one. The
ways differ in what they do about another writer that comes in between.
"""

from __future__ import annotations

import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar, NamedTuple

import psycopg

import fencelock
from fencelock.guards import SqlGuard

PROCESSES = 16
"""At most so many; beyond that, each process has several writers, as threads."""

TABLE = (
    "CREATE TABLE written (id int PRIMARY KEY, value bigint, version bigint) WITH (fillfactor = 50)"
)
_ADD = "UPDATE written SET value = value + 1 WHERE id = 1"
_READ = "SELECT value, version FROM written WHERE id = 1"
_WRITE = "UPDATE written SET value = %s WHERE id = 1"
_WRITE_IF = "UPDATE written SET value = %s, version = version + 1 WHERE id = 1 AND version = %s"

guard = SqlGuard()


class Task(NamedTuple):
    """What the writers of one process do."""

    way: type[Way]
    url: str
    writers: int
    work: float
    """Seconds between reading and writing."""


class Tally(NamedTuple):
    """What one writer has done."""

    updates: int
    """All its updates, also the last one, which ends after the time is over."""
    attempts: int
    """How often it did the work for updates in time: for each update once, and once more for each retry."""
    seconds: list[float]
    """How long each update in time took."""


class Way(ABC):
    """One writer, with a connection of its own."""

    label: ClassVar[str]

    def __init__(self, task: Task, client: fencelock.Client) -> None:
        self._work = task.work
        self._client = client
        self._connection = psycopg.connect(task.url, autocommit=True)

    @abstractmethod
    def add_one(self) -> int:
        """Returns how often the work was done."""

    def _worked(self, value: int) -> int:
        if self._work:
            time.sleep(self._work)
        return value + 1

    def _read(self) -> tuple[int, int]:
        row: Any = self._connection.execute(_READ, prepare=True).fetchone()
        value, version = row
        return value, version

    def close(self) -> None:
        self._connection.close()


class Locked(Way):
    """Under a lock in the same database. The transaction begins with the guard's check."""

    label = "lock with a guard"

    def add_one(self) -> int:
        with self._client.lock("written", ttl=30) as lease, self._connection.transaction():
            guard.check(
                self._connection, lease
            )  # first: so what is read after it needs no other barrier
            value, _ = self._read()
            self._connection.execute(_WRITE, (self._worked(value),), prepare=True)
        return 1


class RowLocked(Way):
    """Under the row's own lock, for the length of a transaction."""

    label = "SELECT … FOR UPDATE"

    def add_one(self) -> int:
        with self._connection.transaction():
            row: Any = self._connection.execute(f"{_READ} FOR UPDATE", prepare=True).fetchone()
            self._connection.execute(_WRITE, (self._worked(row[0]),), prepare=True)
        return 1


class Optimistic(Way):
    """With a version: read again, and work again, if another writer was faster."""

    label = "optimistic retry"

    def add_one(self) -> int:
        attempts = 0
        while True:
            value, version = self._read()
            attempts += 1
            written = (self._worked(value), version)
            if self._connection.execute(_WRITE_IF, written, prepare=True).rowcount == 1:
                return attempts


class Atomic(Way):
    """In one statement. No work fits in between."""

    label = "atomic update"

    def add_one(self) -> int:
        self._connection.execute(_ADD, prepare=True)
        return 1


def shared_out(writers: int) -> list[int]:
    """How many writers each process has."""
    processes = min(writers, PROCESSES)
    return [writers // processes + (place < writers % processes) for place in range(processes)]


# --- the code that runs in a worker process

_ways: Sequence[Way] = ()
_client: fencelock.Client | None = None


def connect(task: Task) -> None:
    """Connect all writers of this process, and let each add one, so that everything is ready."""
    global _ways, _client
    _client = fencelock.Client(task.url)
    _ways = [task.way(task, _client) for _ in range(task.writers)]
    for way in _ways:
        way.add_one()


def write(start: float, seconds: float) -> list[Tally]:
    """Let all writers write until the time is over."""
    tallies: list[Tally] = []
    threads = [
        threading.Thread(
            target=lambda way=way: tallies.append(_written(way, start, start + seconds))
        )
        for way in _ways
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(tallies) == len(_ways), "a writer failed"
    return tallies


def _written(way: Way, start: float, end: float) -> Tally:
    time.sleep(max(0, start - time.monotonic()))
    updates, attempts, taken, before = 0, 0, [], time.monotonic()
    while before < end:
        tries, now = way.add_one(), time.monotonic()
        updates += 1
        if now <= end:
            attempts += tries
            taken.append(now - before)
        before = now
    return Tally(updates, attempts, taken)


def close() -> None:
    global _ways, _client
    for way in _ways:
        way.close()
    _ways = ()
    if _client is not None:
        _client.close()
    _client = None
