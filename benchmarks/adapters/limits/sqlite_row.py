"""A lease row and two transactions: the least that a lock in a SQLite file can do."""

from __future__ import annotations

import apsw

from benchmarks.adapters.contract import Turns
from benchmarks.adapters.limits.flock import path_beside


class BareRow(Turns):
    """It never waits."""

    label = "limit: bare lease row"

    def __init__(self, url: str, name: str, seat: int = 0, seats: int = 1) -> None:
        self._connection = apsw.Connection(path_beside(url, "bare"))
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
