"""The caller's own connections and sessions, of many packages, behind one interface.

No driver is imported at the top of the file: only a caller that has such a connection needs its package.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from inspect import isawaitable
from typing import Any, ClassVar, Literal, cast, get_args

from fencelock.core.errors import Unsupported

Dialect = Literal["postgresql", "mysql", "sqlite"]


async def _settled(answer: Any) -> Any:
    """Await the answer of an asyncio driver; a blocking driver gives the result itself."""
    return await answer if isawaitable(answer) else answer


class Session(ABC):
    """One connection of the caller."""

    placeholder: ClassVar[str] = "%s"
    """How the driver writes a placeholder. In our statements it is `{}`."""

    def __init__(self, connection: Any) -> None:
        self.connection = connection

    @abstractmethod
    async def look(self) -> tuple[Dialect, bool]:
        """Which database it is, and whether the next statement is part of a transaction."""

    async def run(self, sql: str, *values: Any) -> int:
        """Run a statement without rows. Returns how many rows it changed, or -1 if that is not known yet."""
        return int(await self._execute(sql, values, lambda cursor: cursor.rowcount))

    async def ask(self, sql: str, *values: Any) -> list[Sequence[Any]]:
        """Run a statement, and return its rows."""
        rows = await self._execute(sql, values, lambda cursor: cursor.fetchall())
        return [tuple(row.values()) if isinstance(row, Mapping) else row for row in rows]

    async def _execute(self, sql: str, values: Sequence[Any], answer: Callable[[Any], Any]) -> Any:
        cursor = self._cursor()
        try:
            await _settled(cursor.execute(sql.replace("{}", self.placeholder), values))
            return await _settled(answer(cursor))
        finally:
            await _settled(cursor.close())

    def _cursor(self) -> Any:
        return self.connection.cursor()


class _Sqlite(Session):
    placeholder = "?"

    async def look(self) -> tuple[Dialect, bool]:
        connection = self.connection
        # By default, a transaction begins by itself with the first write. `autocommit` (since Python 3.12)
        # decides if it is set; -1 means that `isolation_level` decides.
        autocommit = getattr(connection, "autocommit", -1)
        if autocommit == -1:
            autocommit = connection.isolation_level is None
        return "sqlite", connection.in_transaction or not autocommit


class _Apsw(Session):
    placeholder = "?"

    async def look(self) -> tuple[Dialect, bool]:
        return "sqlite", self.connection.in_transaction

    async def run(self, sql: str, *values: Any) -> int:
        await self.ask(sql, *values)  # its cursors have no `rowcount`
        return int(self.connection.changes())


class _Psycopg(Session):
    async def look(self) -> tuple[Dialect, bool]:
        connection, idle = self.connection, 0
        begun = connection.info.transaction_status != idle
        return "postgresql", begun or not connection.autocommit

    def _cursor(self) -> Any:
        from psycopg.rows import tuple_row

        return self.connection.cursor(row_factory=tuple_row)


class _Mysql(Session):
    """PyMySQL, and asyncmy, which has the same interface."""

    async def look(self) -> tuple[Dialect, bool]:
        in_transaction = 1
        status = self.connection.server_status & in_transaction
        return "mysql", not self.connection.get_autocommit() or bool(status)


class _Django(Session):
    """`django.db.connection`, or one of `connections`."""

    async def look(self) -> tuple[Dialect, bool]:
        connection = self.connection
        dialect = _dialect(connection.vendor)
        return dialect, connection.in_atomic_block or not connection.get_autocommit()


class _Sqlalchemy(Session):
    """A session or a connection, blocking or async."""

    async def look(self) -> tuple[Dialect, bool]:
        if hasattr(self.connection, "run_sync"):  # only the async ones have it
            return cast(tuple[Dialect, bool], await self.connection.run_sync(_look))
        return _look(self.connection)

    async def _execute(self, sql: str, values: Sequence[Any], answer: Callable[[Any], Any]) -> Any:
        from sqlalchemy import text

        named = sql.format(*(f":v{number}" for number in range(len(values))))
        parameters = {f"v{number}": value for number, value in enumerate(values)}
        return answer(await _settled(self.connection.execute(text(named), parameters)))


_BLOCKING: dict[tuple[str, str], type[Session]] = {
    ("sqlite3", "Connection"): _Sqlite,
    ("apsw", "Connection"): _Apsw,
    ("psycopg", "Connection"): _Psycopg,
    ("pymysql", "Connection"): _Mysql,
    ("django", "BaseDatabaseWrapper"): _Django,
    ("django", "ConnectionProxy"): _Django,
    ("sqlalchemy", "Connection"): _Sqlalchemy,
    ("sqlalchemy", "Session"): _Sqlalchemy,
    ("sqlalchemy", "scoped_session"): _Sqlalchemy,
}
_ASYNCIO: dict[tuple[str, str], type[Session]] = {
    ("psycopg", "AsyncConnection"): _Psycopg,
    ("asyncmy", "Connection"): _Mysql,
    ("sqlalchemy", "AsyncConnection"): _Sqlalchemy,
    ("sqlalchemy", "AsyncSession"): _Sqlalchemy,
    ("sqlalchemy", "async_scoped_session"): _Sqlalchemy,
}


def session_of(connection: Any, *, blocking: bool) -> Session:
    """The session of a connection; `TypeError` if this kind of guard can't use it."""
    known, others = (_BLOCKING, _ASYNCIO) if blocking else (_ASYNCIO, _BLOCKING)
    for kind in type(connection).__mro__:
        key = (kind.__module__.partition(".")[0], kind.__name__)
        if key in known:
            return known[key](connection)
        if key in others:
            raise TypeError(
                "an asyncio connection needs the other kind of guard: use Async…Guard"
                if blocking
                else "a blocking connection needs the other kind of guard: use the one without Async"
            )
    packages = sorted({package for package, _ in known})
    raise TypeError(
        f"a connection or session of {', '.join(packages)} is needed, "
        f"not {type(connection).__module__}.{type(connection).__qualname__}"
    )


_ALIASES = {"mariadb": "mysql", "postgres": "postgresql", "sqlite3": "sqlite"}


def known_dialect(name: str) -> Dialect | None:
    """The dialect with this name or alias; None if guards do not know it."""
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
        connection.begin()  # its first statement would do the same
    return dialect, not _commits(connection)


def _commits(connection: Any) -> bool:
    """Whether the driver commits each statement. Asks the server only if there is no other way."""
    driver = connection.connection.driver_connection
    if getattr(driver, "in_transaction", False) is True:  # SQLite, after any BEGIN
        return False
    try:
        return bool(connection.dialect.detect_autocommit_setting(connection.connection))
    except (AttributeError, NotImplementedError):  # an older SQLAlchemy, or another driver
        chosen = connection.get_execution_options().get("isolation_level")
        return "AUTOCOMMIT" in (chosen, connection.get_isolation_level())


def stamped(row: Sequence[Any]) -> tuple[int, str]:
    """The fence and the holder in a row. Some connections return text as bytes."""
    fence, holder = row
    return int(fence or 0), holder.decode() if isinstance(holder, bytes) else holder or ""
