"""MariaDB: GET_LOCK and RELEASE_LOCK on one connection. It writes nothing."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlsplit

import pymysql

from benchmarks.adapters.contract import Turns


def connected(url: str) -> Any:
    """A bare connection of the driver that Fencelock uses as well."""
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


class GetLock(Turns):
    """One connection per waiter."""

    label = "limit: bare GET_LOCK"

    def __init__(self, url: str, name: str, seat: int = 0, seats: int = 1) -> None:
        self._connection = connected(url)
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
