"""MariaDB: two UPDATEs of one row, the least that leaves a durable trace."""

from __future__ import annotations

from benchmarks.adapters.contract import Turns
from benchmarks.adapters.limits.mysql_getlock import connected

_TAKE = "UPDATE bare SET fence = LAST_INSERT_ID(fence + 1), id = 'me' WHERE name = %s"
_FREE = "UPDATE bare SET id = NULL WHERE name = %s AND id = 'me'"


class MysqlUpdates(Turns):
    """It never waits."""

    label = "limit: two bare UPDATEs"

    def __init__(self, url: str, name: str, seat: int = 0, seats: int = 1) -> None:
        self._name = name
        self._connection = connected(url)
        self._cursor = self._connection.cursor()
        self._cursor.execute(
            "CREATE TABLE IF NOT EXISTS bare "
            "(name VARBINARY(512) PRIMARY KEY, fence BIGINT, id VARBINARY(64))"
        )
        self._cursor.execute("REPLACE INTO bare VALUES (%s, 0, NULL)", [name])

    def acquire(self) -> None:
        assert self._cursor.execute(_TAKE, [self._name]) == 1

    def release(self) -> None:
        assert self._cursor.execute(_FREE, [self._name]) == 1

    def close(self) -> None:
        self._connection.close()
