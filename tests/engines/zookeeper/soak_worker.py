"""One of several processes that hand a lock around and count in a guarded file; see soak.py.

In each turn it raises the file's fence, reads the number, waits a moment and writes the number plus one.
The write is refused if a newer fence has been there. If two processes ever worked at the same time, the sum
would be too small.
"""

from __future__ import annotations

import sqlite3
import sys
import time
from contextlib import closing, suppress
from pathlib import Path

import fencelock

SCHEMA = """
CREATE TABLE IF NOT EXISTS counter (fence INTEGER, value INTEGER);
CREATE TABLE IF NOT EXISTS journal (fence INTEGER, value INTEGER, pid INTEGER, moment REAL);
CREATE TABLE IF NOT EXISTS failures (kind TEXT);
"""


class Stale(Exception):
    """The storage has seen a newer fence."""


class GuardedCounter:
    """A number in a file that only takes writes with the newest fence."""

    def __init__(self, path: Path) -> None:
        self._file = sqlite3.connect(path, isolation_level=None, timeout=30)
        self._file.execute("PRAGMA synchronous = OFF")

    def raise_fence(self, fence: int) -> int:
        """Shut out older holders, then read: in this order."""
        with self._transaction():
            (newest, value) = self._file.execute("SELECT fence, value FROM counter").fetchone()
            if newest > fence:
                raise Stale
            self._file.execute("UPDATE counter SET fence = ?", (fence,))
        return int(value)

    def write(self, fence: int, value: int, pid: int) -> None:
        with self._transaction():
            (newest,) = self._file.execute("SELECT fence FROM counter").fetchone()
            if newest != fence:
                raise Stale
            self._file.execute("UPDATE counter SET value = ?", (value,))
            self._file.execute(
                "INSERT INTO journal VALUES (?, ?, ?, ?)", (fence, value, pid, time.monotonic())
            )

    def failed(self, error: Exception) -> None:
        self._file.execute("INSERT INTO failures VALUES (?)", (type(error).__name__,))

    def _transaction(self) -> _Transaction:
        return _Transaction(self._file)

    def close(self) -> None:
        self._file.close()


class _Transaction:
    def __init__(self, file: sqlite3.Connection) -> None:
        self._file = file

    def __enter__(self) -> None:
        self._file.execute("BEGIN IMMEDIATE")

    def __exit__(self, kind: object, *_: object) -> None:
        self._file.execute("COMMIT" if kind is None else "ROLLBACK")


def take_turns(url: str, name: str, folder: Path, number: int) -> None:
    """Take turns until the folder says that it is over."""
    with (
        closing(GuardedCounter(folder / "counter.db")) as counter,
        fencelock.Client(url, ttl=5) as client,
    ):
        while not (folder / "over").exists():
            try:
                with client.lock(name, timeout=10) as lease:
                    value = counter.raise_fence(lease.fence)
                    time.sleep(0.002)
                    counter.write(lease.fence, value + 1, number)
            except (fencelock.FencelockError, Stale) as error:
                counter.failed(error)
                time.sleep(0.02)


if __name__ == "__main__":
    with suppress(KeyboardInterrupt):
        take_turns(sys.argv[1], sys.argv[2], Path(sys.argv[3]), int(sys.argv[4]))
