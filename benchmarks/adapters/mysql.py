"""MariaDB: the limits by hand, and the rival, which takes no fence and no ttl."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlsplit

import pymysql

from benchmarks.adapters.contract import Turns

_TAKE = "UPDATE bare SET fence = LAST_INSERT_ID(fence + 1), id = 'me' WHERE name = %s"
_FREE = "UPDATE bare SET id = NULL WHERE name = %s AND id = 'me'"


def connect(url: str) -> Any:
    """A bare connection of the driver that Holdfast uses, too."""
    parts = urlsplit(url)
    return pymysql.connect(
        host=parts.hostname,
        port=parts.port or 3306,
        user=parts.username,
        password=parts.password or "",
        database=parts.path.strip("/"),
        autocommit=True,
        ssl_disabled=True,
    )


class BareUpdates(Turns):
    """Two UPDATEs of one row: the least that leaves a durable trace."""

    label = "limit: two bare UPDATEs"

    def __init__(self, url: str, name: str, seat: int = 0, seats: int = 1) -> None:
        self._name = name
        self._connection = connect(url)
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


class BareGetLock(Turns):
    """GET_LOCK and RELEASE_LOCK on one connection: nothing is written."""

    label = "limit: bare GET_LOCK"

    def __init__(self, url: str, name: str, seat: int = 0, seats: int = 1) -> None:
        self._connection = connect(url)
        self._cursor = self._connection.cursor()
        self._name = name

    def acquire(self) -> None:
        self._cursor.execute("SELECT GET_LOCK(%s, 60)", [self._name])
        assert self._cursor.fetchone() == (1,)

    def release(self) -> None:
        self._cursor.execute("SELECT RELEASE_LOCK(%s)", [self._name])
        assert self._cursor.fetchone() == (1,)

    def close(self) -> None:
        self._connection.close()


class Tooz(Turns):
    """tooz on GET_LOCK; it connects anew for each acquire."""

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
