"""Storage for test_story.py and the soak: processes read and write a number, with a guard or without.

Many processes import this, so each driver is imported only where it is used.
"""

from __future__ import annotations

import sqlite3
import subprocess
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from pathlib import Path
from typing import Any

from fencelock.core.url import Url
from fencelock.guards import ColumnGuard, FencedFile, RedisGuard, SqlGuard
from fencelock.guards.lease_like import LeaseLike

PATIENCE = 20
"""Seconds that SQLite waits for another writer. Servers wait longer by default."""


PLAIN: dict[str, Any] = {"ssl_disabled": True}
"""For PyMySQL. With ssl, it reads all certificates of the machine at each connection: 20 ms of work."""


def mysql_options(where: str) -> dict[str, Any]:
    """The arguments of a MySQL driver for a URL."""
    url = Url.parse(where)
    host, port = url.hosts[0]
    return {
        "host": host,
        "port": port,
        "user": url.user,
        "password": url.password,
        "database": url.path.strip("/"),
    }


class Store(ABC):
    """One number, under one name."""

    def __init__(self, where: str, name: str) -> None:
        self.where = where
        self.name = name

    @abstractmethod
    def set_up(self, value: int) -> None:
        """Create what is needed, and set the number."""

    @abstractmethod
    def read(self) -> int:
        """The number."""

    @abstractmethod
    def write(self, value: int, lease: LeaseLike | None) -> None:
        """Set the number. Without a lease, the write is not guarded."""

    @abstractmethod
    def raise_fence(self, lease: LeaseLike) -> None:
        """The read barrier."""

    def close(self) -> None:  # noqa: B027 - most have nothing open
        """Close connections."""


class SqlStore(Store):
    """In a table, guarded by a row in another one."""

    def __init__(self, where: str, name: str) -> None:
        super().__init__(where, name)
        self.guard = SqlGuard(f"{name}_fences", open=self.transaction)

    @contextmanager
    def transaction(self) -> Iterator[Any]:
        with self._connected() as connection:
            yield connection
            connection.commit()

    @abstractmethod
    def _connected(self) -> AbstractContextManager[Any]: ...

    def set_up(self, value: int) -> None:
        with self.transaction() as connection, closing(connection.cursor()) as cursor:
            self.guard.create(connection)
            cursor.execute(
                f"CREATE TABLE {self.name} "
                "(id INTEGER PRIMARY KEY, value INTEGER, fence BIGINT, holder VARCHAR(64))"
            )
            cursor.execute(f"INSERT INTO {self.name} (id, value) VALUES (1, {value})")

    def read(self) -> int:
        with self.transaction() as connection, closing(connection.cursor()) as cursor:
            cursor.execute(f"SELECT value FROM {self.name}")
            return int(cursor.fetchone()[0])

    def write(self, value: int, lease: LeaseLike | None) -> None:
        with self.transaction() as connection, closing(connection.cursor()) as cursor:
            if lease is not None:
                self.guard.check(connection, lease)
            cursor.execute(f"UPDATE {self.name} SET value = {value}")

    def raise_fence(self, lease: LeaseLike) -> None:
        self.guard.raise_fence(lease)


class SqliteStore(SqlStore):
    def _connected(self) -> AbstractContextManager[Any]:
        return closing(sqlite3.connect(self.where, timeout=PATIENCE))


class PostgresqlStore(SqlStore):
    def _connected(self) -> AbstractContextManager[Any]:
        import psycopg

        return closing(psycopg.connect(self.where))


class MysqlStore(SqlStore):
    def _connected(self) -> AbstractContextManager[Any]:
        import pymysql

        return closing(pymysql.connect(**PLAIN, **mysql_options(self.where)))


class ColumnStore(SqliteStore):
    """In a table with the fence in the same row."""

    def __init__(self, where: str, name: str) -> None:
        super().__init__(where, name)
        self.columns = ColumnGuard(name)

    def write(self, value: int, lease: LeaseLike | None) -> None:
        if lease is None:
            super().write(value, None)
            return
        with self.transaction() as connection:
            self.columns.update(connection, lease, 1, value=value)

    def raise_fence(self, lease: LeaseLike) -> None:
        with self.transaction() as connection:
            self.columns.update(connection, lease, 1)


class RedisStore(Store):
    def __init__(self, where: str, name: str) -> None:
        import redis

        super().__init__(where, name)
        self._client = redis.Redis.from_url(where)
        self.guard = RedisGuard(self._client, keys=[name])

    def set_up(self, value: int) -> None:
        self.write(value, None)

    def read(self) -> int:
        return int(self._client.get(self.name) or 0)

    def write(self, value: int, lease: LeaseLike | None) -> None:
        if lease is None:
            self._client.set(self.name, value)
        else:
            self.guard.set(self.name, value, lease)

    def raise_fence(self, lease: LeaseLike) -> None:
        self.guard.raise_fence(lease)

    def close(self) -> None:
        self._client.close()


class FileStore(Store):
    def __init__(self, where: str, name: str) -> None:
        super().__init__(where, name)
        self.guard = FencedFile(Path(where) / name)

    def set_up(self, value: int) -> None:
        self.write(value, None)

    def read(self) -> int:
        return int(self.guard.read())

    def write(self, value: int, lease: LeaseLike | None) -> None:
        if lease is None:
            self.guard.path.write_text(str(value))
        else:
            self.guard.write(str(value).encode(), lease)

    def raise_fence(self, lease: LeaseLike) -> None:
        self.guard.raise_fence(lease)


class EtcdStore(Store):
    """In the cluster that also has the lock."""

    def set_up(self, value: int) -> None:
        self.write(value, None)

    def read(self) -> int:
        return int(self._ctl("get", f"app/{self.name}", "--print-value-only"))

    def write(self, value: int, lease: LeaseLike | None) -> None:
        from fencelock.guards.etcd import EtcdGuard

        if lease is None:
            self._ctl("put", f"app/{self.name}", str(value))
        else:
            EtcdGuard().put(f"app/{self.name}", str(value), lease)

    def raise_fence(self, lease: LeaseLike) -> None:
        from fencelock.guards.etcd import EtcdGuard

        EtcdGuard().raise_fence(lease)

    def _ctl(self, *words: str) -> str:
        hosts = ",".join(f"{host}:{port}" for host, port in Url.parse(self.where).hosts)
        command = ["etcdctl", f"--endpoints={hosts}", *words]
        return subprocess.run(command, capture_output=True, check=True, text=True).stdout


class ZooKeeperStore(Store):
    """In the cluster that also has the lock."""

    def __init__(self, where: str, name: str) -> None:
        from kazoo.client import KazooClient

        super().__init__(where, name)
        hosts = ",".join(f"{host}:{port}" for host, port in Url.parse(where).hosts)
        self._client = KazooClient(hosts)
        self._client.start()

    def set_up(self, value: int) -> None:
        self._client.create(f"/{self.name}", str(value).encode())

    def read(self) -> int:
        self._client.sync(f"/{self.name}")  # this server may be behind the others
        return int(self._client.get(f"/{self.name}")[0])

    def write(self, value: int, lease: LeaseLike | None) -> None:
        from fencelock.guards.zookeeper import ZooKeeperGuard

        if lease is None:
            self._client.set(f"/{self.name}", str(value).encode())
        else:
            ZooKeeperGuard().set(f"/{self.name}", str(value).encode(), lease)

    def raise_fence(self, lease: LeaseLike) -> None:
        """Not needed: nobody else can write while the lock's own ticket is there."""

    def close(self) -> None:
        self._client.stop()
        self._client.close()


STORES: dict[str, type[Store]] = {
    "sqlite": SqliteStore,
    "postgresql": PostgresqlStore,
    "mysql": MysqlStore,
    "column": ColumnStore,
    "redis": RedisStore,
    "file": FileStore,
    "etcd": EtcdStore,
    "zookeeper": ZooKeeperStore,
}
