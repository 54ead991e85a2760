"""PostgreSQL: two UPDATE … RETURNING of one row, the least that leaves a durable trace."""

from __future__ import annotations

import psycopg

from benchmarks.adapters.contract import Turns

_TAKE = "UPDATE bare SET fence = fence + 1, id = %s WHERE name = %s RETURNING fence"
_FREE = "UPDATE bare SET id = NULL WHERE name = %s AND id = %s RETURNING fence"


class PostgresqlUpdates(Turns):
    """It never waits."""

    label = "limit: two bare UPDATE … RETURNING"

    def __init__(self, url: str, name: str, seat: int = 0, seats: int = 1) -> None:
        self._name = name
        self._connection = psycopg.connect(url, autocommit=True)
        self._connection.execute(
            "CREATE TABLE IF NOT EXISTS bare (name text PRIMARY KEY, fence bigint, id text)"
            " WITH (fillfactor = 50)"
        )
        self._connection.execute(
            "INSERT INTO bare VALUES (%s, 0, NULL) ON CONFLICT DO NOTHING", [name]
        )

    def acquire(self) -> None:
        assert self._connection.execute(_TAKE, ["me", self._name], prepare=True).fetchone()

    def release(self) -> None:
        assert self._connection.execute(_FREE, [self._name, "me"], prepare=True).fetchone()

    def close(self) -> None:
        self._connection.close()
