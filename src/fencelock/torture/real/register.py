"""The storage of a torture run: a number for each name behind a guard, and the same number without one.

It also keeps a journal of its own: each accepted write, in the transaction that writes. So the order of the
writes is the storage's own, and no clock is needed to know it.
"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from fencelock.core.errors import FencelockError, Unsupported
from fencelock.core.url import Url
from fencelock.guards.lease_like import LeaseLike, holder_of
from fencelock.guards.rows import SqlGuard
from fencelock.guards.sessions import session_of
from fencelock.io.blocking import run
from fencelock.io.clock import now
from fencelock.torture.records import Write

if TYPE_CHECKING:
    import apsw

_PATIENCE = 120
"""Seconds for which a writer waits for another one, which may have been stopped in its transaction."""


class Register(ABC):
    """The numbers, from the side of one process. Threads may share it."""

    def __init__(self, where: str, run: str) -> None:
        self.where = where
        self.prefix = f"torture_{run}"
        self.guard = SqlGuard(f"{self.prefix}_fences", open=self.transaction)
        self._thread = threading.local()

    # --- the coordinator's side

    serial: ClassVar[str]
    """The type of a column that numbers its rows."""

    def prepare(self, names: Sequence[str]) -> None:
        """Make the tables; all numbers are 0."""
        with self.transaction() as connection:
            self.guard.create(connection)
            for table in ("guarded", "bare"):
                self._run(
                    f"CREATE TABLE {{p}}_{table} (name VARCHAR(512) PRIMARY KEY, value BIGINT)"
                )
                for name in names:
                    self._run(f"INSERT INTO {{p}}_{table} VALUES ({{}}, 0)", name)
            self._run(
                f"CREATE TABLE {{p}}_writes (number {self.serial}, name VARCHAR(512), fence BIGINT, "
                "holder VARCHAR(64), value BIGINT, replaced BIGINT, moment DOUBLE PRECISION, "
                "process VARCHAR(64))"
            )

    def remove(self) -> None:
        """Remove the tables."""
        with self.transaction():
            for table in ("guarded", "bare", "writes", "fences"):
                self._run(f"DROP TABLE IF EXISTS {{p}}_{table}")

    def final(self) -> Final:
        """All that is stored, when the run is over."""
        with self.transaction():
            rows = self._ask(
                "SELECT name, fence, holder, value, replaced, moment, process FROM {p}_writes "
                "ORDER BY number"
            )
            guarded, bare = (
                {str(name): int(value) for name, value in self._ask(f"SELECT * FROM {{p}}_{table}")}
                for table in ("guarded", "bare")
            )
        writes = [
            Write(name, fence, holder, value, replaced, at=at, process=process)
            for name, fence, holder, value, replaced, at, process in rows
        ]
        return Final(writes, guarded, bare)

    # --- the workers' side

    def read(self, name: str) -> int:
        """The guarded number."""
        return self._value("guarded", name)

    def write(self, stamp: LeaseLike, value: int, process: str) -> None:
        """Store the guarded number; `StaleFence` if a newer holder was here."""
        with self.transaction() as connection:
            self.guard.check(connection, stamp)
            replaced = self._ask("SELECT value FROM {p}_guarded WHERE name = {}", stamp.name)[0][0]
            self._run("UPDATE {p}_guarded SET value = {} WHERE name = {}", value, stamp.name)
            self._run(
                "INSERT INTO {p}_writes (name, fence, holder, value, replaced, moment, process) "
                "VALUES ({}, {}, {}, {}, {}, {}, {})",
                *(stamp.name, stamp.fence, holder_of(stamp), value, int(replaced), now(), process),
            )

    def read_bare(self, name: str) -> int:
        """The number without a guard."""
        return self._value("bare", name)

    def write_bare(self, name: str, value: int) -> None:
        """Store the number without a guard: nothing refuses it."""
        with self.transaction():
            self._run("UPDATE {p}_bare SET value = {} WHERE name = {}", value, name)

    def close(self) -> None:
        """Close the connection of this thread."""
        connection = getattr(self._thread, "connection", None)
        self._thread.connection = None
        if connection is not None:
            connection.close()

    # --- connections: each thread has its own

    @contextmanager
    def transaction(self) -> Iterator[Any]:
        """A transaction on this thread's connection."""
        connection = getattr(self._thread, "connection", None)
        if connection is None:
            connection = self._thread.connection = self._connect()
        try:
            self._begin(connection)
            yield connection
            self._commit(connection)
        except BaseException:
            with suppress(Exception):  # the connection may be the trouble
                self._rollback(connection)
            raise

    @abstractmethod
    def _connect(self) -> Any: ...

    def _begin(self, connection: Any) -> None:
        connection.cursor().execute("BEGIN")

    def _commit(self, connection: Any) -> None:
        connection.commit()

    def _rollback(self, connection: Any) -> None:
        connection.rollback()

    def _value(self, table: str, name: str) -> int:
        with self.transaction():
            return int(self._ask(f"SELECT value FROM {{p}}_{table} WHERE name = {{}}", name)[0][0])

    def _run(self, sql: str, *values: Any) -> None:
        run(self._session().run(sql.replace("{p}", self.prefix), *values))

    def _ask(self, sql: str, *values: Any) -> list[Sequence[Any]]:
        return run(self._session().ask(sql.replace("{p}", self.prefix), *values))

    def _session(self) -> Any:
        return session_of(self._thread.connection, blocking=True)


class Final(NamedTuple):
    """All that is stored when a run is over. It is a `records.Storage`."""

    writes: Sequence[Write]
    guarded: dict[str, int]
    bare: dict[str, int]

    def value(self, name: str) -> int:
        """What the guarded number stands at."""
        return self.guarded[name]


class SqliteRegister(Register):
    """In a file."""

    serial = "INTEGER PRIMARY KEY AUTOINCREMENT"

    def _connect(self) -> apsw.Connection:
        import apsw

        connection = apsw.Connection(Url.parse(self.where).path.removeprefix("/"))
        connection.set_busy_timeout(_PATIENCE * 1000)
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("PRAGMA synchronous=OFF")  # what a run stores is worth nothing after it
        return connection

    def _begin(self, connection: Any) -> None:
        connection.execute("BEGIN IMMEDIATE")

    def _commit(self, connection: Any) -> None:
        connection.execute("COMMIT")

    def _rollback(self, connection: Any) -> None:
        connection.execute("ROLLBACK")


class PostgresqlRegister(Register):
    """In a PostgreSQL database."""

    serial = "BIGSERIAL PRIMARY KEY"

    def _connect(self) -> Any:
        import psycopg

        return psycopg.connect(self.where)

    def _begin(self, connection: Any) -> None:
        """It begins by itself."""


class MysqlRegister(Register):
    """In a MySQL or MariaDB database."""

    serial = "BIGINT AUTO_INCREMENT PRIMARY KEY"

    def _connect(self) -> Any:
        import pymysql

        url = Url.parse(self.where)
        host, port = url.hosts[0]
        return pymysql.connect(
            host=host,
            port=port or 3306,
            user=url.user,
            password=url.password or "",
            database=url.path.strip("/"),
        )


_KINDS: dict[str, type[Register]] = {
    "sqlite": SqliteRegister,
    "postgresql": PostgresqlRegister,
    "mysql": MysqlRegister,
}


def register_at(where: str, run: str) -> Register:
    """The register of a run in the storage with this URL."""
    scheme = Url.parse(where).scheme
    if scheme not in _KINDS:
        raise Unsupported(
            f"torture keeps its numbers in {', '.join(_KINDS)}, not in {scheme}: choose another --storage"
        )
    register = _KINDS[scheme](where, run)
    try:
        with register.transaction():
            pass
    except ModuleNotFoundError as error:
        raise Unsupported(
            f"the storage {scheme}:// needs the package {error.name!r}: install it first"
        ) from error
    except Exception as error:  # of any driver; its message may quote the URL
        raise FencelockError(
            f"can't use the storage {Url.parse(where)} ({type(error).__name__}): check that it is there, "
            "and that this user may create tables"
        ) from error
    return register
