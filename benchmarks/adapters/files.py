"""Locks on one machine: rivals and limits of the SQLite engine. The URL is sqlite:///…"""

from __future__ import annotations

import fcntl
import os

import apsw
import filelock

from benchmarks.adapters.contract import Turns


def _path(url: str, suffix: str) -> str:
    return url.removeprefix("sqlite:///") + suffix


class FileLock(Turns):
    """filelock: no lease, no fence, no queue; polls every 50 ms."""

    label = "filelock"

    def __init__(self, url: str, name: str, seat: int = 0, seats: int = 1) -> None:
        self._lock = filelock.FileLock(_path(url, f".{name}.filelock"))

    def acquire(self) -> None:
        self._lock.acquire()

    def release(self) -> None:
        self._lock.release()


class Flock(Turns):
    """The kernel's own lock, blocking: no lease, no fence, nothing survives a look."""

    label = "limit: flock"

    def __init__(self, url: str, name: str, seat: int = 0, seats: int = 1) -> None:
        self._fd = os.open(_path(url, f".{name}.flock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC)

    def acquire(self) -> None:
        fcntl.flock(self._fd, fcntl.LOCK_EX)

    def release(self) -> None:
        fcntl.flock(self._fd, fcntl.LOCK_UN)

    def close(self) -> None:
        os.close(self._fd)


class BareRow(Turns):
    """A lease row and two transactions: the least a lock in a SQLite file can do."""

    label = "limit: bare lease row"

    def __init__(self, url: str, name: str, seat: int = 0, seats: int = 1) -> None:
        self._connection = apsw.Connection(_path(url, ".bare"))
        self._execute = self._connection.cursor().execute
        self._execute("PRAGMA journal_mode = WAL")
        self._execute("PRAGMA synchronous = NORMAL")
        self._execute(
            "CREATE TABLE IF NOT EXISTS lease (name TEXT PRIMARY KEY, id TEXT, fence INT)"
        )
        self._execute("INSERT OR IGNORE INTO lease VALUES (?, NULL, 0)", (name,))
        self._name = name

    def acquire(self) -> None:
        self._execute("BEGIN IMMEDIATE")
        taken = "UPDATE lease SET id = 'me', fence = fence + 1 WHERE name = ? AND id IS NULL"
        self._execute(taken, (self._name,))
        self._execute("COMMIT")

    def release(self) -> None:
        self._execute("BEGIN IMMEDIATE")
        given = "UPDATE lease SET id = NULL WHERE name = ? AND id = 'me'"
        self._execute(given, (self._name,))
        self._execute("COMMIT")

    def close(self) -> None:
        self._connection.close()
