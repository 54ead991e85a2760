"""PostgreSQL: the limits by hand, and the rivals, which take no fence and no ttl."""

from __future__ import annotations

from typing import Any

import psycopg

from benchmarks.adapters.contract import Turns

_TAKE = "UPDATE bare SET fence = fence + 1, id = %s WHERE name = %s RETURNING fence"
_FREE = "UPDATE bare SET id = NULL WHERE name = %s AND id = %s RETURNING fence"


class BareUpdates(Turns):
    """Two UPDATE … RETURNING of one row: the least that leaves a durable trace."""

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


class BareAdvisory(Turns):
    """pg_advisory_lock and pg_advisory_unlock on one connection: nothing is written."""

    label = "limit: bare advisory lock"

    def __init__(self, url: str, name: str, seat: int = 0, seats: int = 1) -> None:
        self._connection = psycopg.connect(url, autocommit=True)
        self._name = name

    def acquire(self) -> None:
        lock = "SELECT pg_advisory_lock(hashtextextended(%s, 0))"
        self._connection.execute(lock, [self._name], prepare=True).fetchone()

    def release(self) -> None:
        unlock = "SELECT pg_advisory_unlock(hashtextextended(%s, 0))"
        self._connection.execute(unlock, [self._name], prepare=True).fetchone()

    def close(self) -> None:
        self._connection.close()


class Tooz(Turns):
    """tooz on an advisory lock; it connects anew for each acquire, and hashes names to 16 bits."""

    label = "tooz"

    def __init__(self, url: str, name: str, seat: int = 0, seats: int = 1) -> None:
        from tooz import coordination

        self._coordinator: Any = coordination.get_coordinator(url, b"bench-%d" % seat)
        self._coordinator.start()
        self._lock = self._coordinator.get_lock(name.encode())

    def acquire(self) -> None:
        assert self._lock.acquire()

    def release(self) -> None:
        assert self._lock.release()

    def close(self) -> None:
        self._coordinator.stop()


class Pals(Turns):
    """pals on an advisory lock, with its pool of connections."""

    label = "pals"

    def __init__(self, url: str, name: str, seat: int = 0, seats: int = 1) -> None:
        import pals

        self._locker: Any = pals.Locker("bench", url)
        self._lock = self._locker.lock(name)

    def acquire(self) -> None:
        assert self._lock.acquire()

    def release(self) -> None:
        assert self._lock.release()

    def close(self) -> None:
        self._locker.engine.dispose()
