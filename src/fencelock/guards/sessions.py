"""The user's own connections and sessions, of whatever package, all seen in one way.

Nothing is imported at the top: whoever has such a connection has its package, and nobody else needs it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Literal, cast, get_args

from fencelock.core.errors import Unsupported

Dialect = Literal["postgresql", "mysql", "sqlite"]


class Session(ABC):
    """One connection of the user's."""

    blocking: ClassVar[bool] = True
    mark: ClassVar[str] = "%s"
    """How a place for a value is written; here it is `{}`."""

    def __init__(self, connection: Any) -> None:
        self.connection = connection

    @abstractmethod
    async def look(self) -> tuple[Dialect, bool]:
        """Which database it is, and whether what is done now is part of a transaction."""

    async def run(self, sql: str, *values: Any) -> int:
        """Run a statement that has no rows to tell; how many it changed, or -1 if that is not known yet."""
        cursor = self._cursor()
        try:
            cursor.execute(sql.replace("{}", self.mark), values)
            return int(cursor.rowcount)
        finally:
            cursor.close()

    async def ask(self, sql: str, *values: Any) -> list[Sequence[Any]]:
        """Run a statement, and read its rows."""
        cursor = self._cursor()
        try:
            cursor.execute(sql.replace("{}", self.mark), values)
            return [_plain(row) for row in cursor.fetchall()]
        finally:
            cursor.close()

    def _cursor(self) -> Any:
        return self.connection.cursor()


class _AsyncSession(Session):
    blocking = False

    async def run(self, sql: str, *values: Any) -> int:
        async with self._cursor() as cursor:
            await cursor.execute(sql.replace("{}", self.mark), values)
            return int(cursor.rowcount)

    async def ask(self, sql: str, *values: Any) -> list[Sequence[Any]]:
        async with self._cursor() as cursor:
            await cursor.execute(sql.replace("{}", self.mark), values)
            return [_plain(row) for row in await cursor.fetchall()]


class _Sqlite(Session):
    mark = "?"

    async def look(self) -> tuple[Dialect, bool]:
        connection = self.connection
        # Unless it is told otherwise, a transaction begins by itself with the first write. Who sets
        # `autocommit` (since Python 3.12) decides, else it is -1 and leaves it to `isolation_level`.
        autocommit = getattr(connection, "autocommit", -1)
        if autocommit == -1:
            autocommit = connection.isolation_level is None
        return "sqlite", connection.in_transaction or not autocommit


class _Apsw(Session):
    mark = "?"

    async def look(self) -> tuple[Dialect, bool]:
        return "sqlite", self.connection.in_transaction

    async def run(self, sql: str, *values: Any) -> int:
        self.connection.execute(sql.replace("{}", self.mark), values)
        return int(self.connection.changes())

    async def ask(self, sql: str, *values: Any) -> list[Sequence[Any]]:
        rows = self.connection.execute(sql.replace("{}", self.mark), values)
        return [_plain(row) for row in rows]


class _Psycopg(Session):
    async def look(self) -> tuple[Dialect, bool]:
        connection, idle = self.connection, 0
        return (
            "postgresql",
            not connection.autocommit or connection.info.transaction_status != idle,
        )

    def _cursor(self) -> Any:
        from psycopg.rows import tuple_row

        return self.connection.cursor(row_factory=tuple_row)


class _AsyncPsycopg(_Psycopg, _AsyncSession):
    blocking = False
    run, ask = _AsyncSession.run, _AsyncSession.ask


class _Pymysql(Session):
    async def look(self) -> tuple[Dialect, bool]:
        in_transaction = 1
        status = self.connection.server_status & in_transaction
        return "mysql", not self.connection.get_autocommit() or bool(status)


class _Asyncmy(_Pymysql, _AsyncSession):
    blocking = False
    run, ask = _AsyncSession.run, _AsyncSession.ask


class _Django(Session):
    """`django.db.connection`, or one of `connections`."""

    async def look(self) -> tuple[Dialect, bool]:
        connection = self.connection
        dialect = _dialect(connection.vendor)
        return dialect, connection.in_atomic_block or not connection.get_autocommit()


class _Sqlalchemy(Session):
    """A Session or a Connection."""

    async def look(self) -> tuple[Dialect, bool]:
        return _look(self.connection)

    async def run(self, sql: str, *values: Any) -> int:
        return int(self.connection.execute(*_prepared(sql, values)).rowcount)

    async def ask(self, sql: str, *values: Any) -> list[Sequence[Any]]:
        return list(self.connection.execute(*_prepared(sql, values)).fetchall())


class _AsyncSqlalchemy(Session):
    """An AsyncSession or an AsyncConnection."""

    blocking = False

    async def look(self) -> tuple[Dialect, bool]:
        return cast(tuple[Dialect, bool], await self.connection.run_sync(_look))

    async def run(self, sql: str, *values: Any) -> int:
        return int((await self.connection.execute(*_prepared(sql, values))).rowcount)

    async def ask(self, sql: str, *values: Any) -> list[Sequence[Any]]:
        return list((await self.connection.execute(*_prepared(sql, values))).fetchall())


_KNOWN: dict[tuple[str, str], type[Session]] = {
    ("sqlite3", "Connection"): _Sqlite,
    ("apsw", "Connection"): _Apsw,
    ("psycopg", "Connection"): _Psycopg,
    ("psycopg", "AsyncConnection"): _AsyncPsycopg,
    ("pymysql", "Connection"): _Pymysql,
    ("asyncmy", "Connection"): _Asyncmy,
    ("django", "BaseDatabaseWrapper"): _Django,
    ("django", "ConnectionProxy"): _Django,
    ("sqlalchemy", "Connection"): _Sqlalchemy,
    ("sqlalchemy", "Session"): _Sqlalchemy,
    ("sqlalchemy", "scoped_session"): _Sqlalchemy,
    ("sqlalchemy", "AsyncConnection"): _AsyncSqlalchemy,
    ("sqlalchemy", "AsyncSession"): _AsyncSqlalchemy,
    ("sqlalchemy", "async_scoped_session"): _AsyncSqlalchemy,
}


def session_of(connection: Any, *, blocking: bool) -> Session:
    """See a connection as a session, or say what is wrong with it."""
    for kind in type(connection).__mro__:
        known = _KNOWN.get((kind.__module__.partition(".")[0], kind.__name__))
        if known is not None and known.blocking is blocking:
            return known(connection)
        if known is not None:
            other = "AsyncSqlGuard" if blocking else "SqlGuard"
            raise TypeError(f"this guard is for the other kind of connections: use {other}")
    packages = sorted({package for package, _ in _KNOWN})
    raise TypeError(
        f"a connection or session of {', '.join(packages)} is needed, "
        f"not {type(connection).__module__}.{type(connection).__qualname__}"
    )


_ALIASES = {"mariadb": "mysql", "postgres": "postgresql", "sqlite3": "sqlite"}


def known_dialect(name: str) -> Dialect | None:
    """The dialect of this name, or of another one that is in use for it."""
    name = _ALIASES.get(name, name)
    return cast(Dialect, name) if name in get_args(Dialect) else None


def _dialect(name: str) -> Dialect:
    dialect = known_dialect(name)
    if dialect is None:
        raise Unsupported(f"guards know {', '.join(get_args(Dialect))}, not {name}")
    return dialect


def _look(owner: Any) -> tuple[Dialect, bool]:
    connection = owner.connection() if hasattr(owner, "get_bind") else owner
    dialect = _dialect(connection.dialect.name)
    if not connection.in_transaction():
        connection.begin()  # as its first statement would
    return dialect, not _commits(connection)


def _commits(connection: Any) -> bool:
    """Whether SQLAlchemy was told to let the driver commit each statement; asks no server if it can."""
    driver = connection.connection.driver_connection
    if getattr(driver, "in_transaction", False) is True:  # SQLite's, whoever said BEGIN
        return False
    try:
        return bool(connection.dialect.detect_autocommit_setting(connection.connection))
    except (AttributeError, NotImplementedError):  # an older SQLAlchemy, or another driver
        chosen = connection.get_execution_options().get("isolation_level")
        return "AUTOCOMMIT" in (chosen, connection.get_isolation_level())


def _prepared(sql: str, values: Sequence[Any]) -> tuple[Any, dict[str, Any]]:
    from sqlalchemy import text

    named = sql.format(*(f":v{number}" for number in range(len(values))))
    return text(named), {f"v{number}": value for number, value in enumerate(values)}


def _plain(row: Any) -> Sequence[Any]:
    return tuple(row.values()) if isinstance(row, Mapping) else row


def stamped(row: Sequence[Any]) -> tuple[int, str]:
    """A fence and a holder as they were stored; some connections leave text as bytes."""
    fence, holder = row
    return int(fence or 0), holder.decode() if isinstance(holder, bytes) else holder or ""
