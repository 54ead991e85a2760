"""PostgreSQL: pg_advisory_lock and pg_advisory_unlock on one connection. It writes nothing."""

from __future__ import annotations

import psycopg

from benchmarks.adapters.contract import Turns

_LOCK = "SELECT pg_advisory_lock(hashtextextended(%s, 0))"
_UNLOCK = "SELECT pg_advisory_unlock(hashtextextended(%s, 0))"


class Advisory(Turns):
    """One connection per waiter."""

    label = "limit: bare advisory lock"

    def __init__(self, url: str, name: str, seat: int = 0, seats: int = 1) -> None:
        self._connection = psycopg.connect(url, autocommit=True)
        self._name = name

    def acquire(self) -> None:
        self._connection.execute(_LOCK, [self._name], prepare=True).fetchone()

    def release(self) -> None:
        self._connection.execute(_UNLOCK, [self._name], prepare=True).fetchone()

    def close(self) -> None:
        self._connection.close()
