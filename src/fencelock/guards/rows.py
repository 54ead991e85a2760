"""Guards for SQL databases: one row per name, checked first in the caller's own transaction.

The check fences everything that the transaction writes after it, in any table. It locks the row until the
commit: an older holder waits for that, is refused, and its transaction is rolled back.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from typing import Any, ClassVar

from fencelock.core.errors import Unsupported
from fencelock.guards.lease_like import LeaseLike, holder_of, refused
from fencelock.guards.sessions import Dialect, known_dialect, session_of, stamped
from fencelock.io.blocking import blocking

_UPSERT = """
INSERT INTO {table} AS f (name, fence, holder) VALUES ({{}}, {{}}, {{}})
    ON CONFLICT (name) DO UPDATE SET fence = excluded.fence, holder = excluded.holder
 WHERE f.fence < excluded.fence OR (f.fence = excluded.fence AND f.holder = excluded.holder)
RETURNING fence"""

# Two statements, because MySQL has no RETURNING, and because it says "0 rows" if it found the row and had
# nothing to change in it. The first statement locks the row. MySQL assigns from left to right.
_RAISE = """
INSERT INTO {table} (name, fence, holder) VALUES ({{}}, {{}}, {{}})
    ON DUPLICATE KEY UPDATE
       holder = IF(fence < VALUES(fence), VALUES(holder), holder),
       fence = GREATEST(fence, VALUES(fence))"""
_LOCKED = "SELECT fence, holder FROM {table} WHERE name = {{}} FOR UPDATE"
_NEWEST = "SELECT fence FROM {table} WHERE name = {{}}"

_CREATE: dict[Dialect, str] = {
    "postgresql": """
CREATE TABLE IF NOT EXISTS {table} (
    name   text   COLLATE "C" PRIMARY KEY,
    fence  bigint NOT NULL,
    holder text   NOT NULL
) WITH (fillfactor = 50)""",
    "mysql": """
CREATE TABLE IF NOT EXISTS {table} (
    name   VARBINARY(512) NOT NULL PRIMARY KEY, -- bytes: no collation makes two names equal
    fence  BIGINT         NOT NULL,
    holder VARCHAR(64)    NOT NULL
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC""",
    "sqlite": """
CREATE TABLE IF NOT EXISTS {table} (
    name   TEXT    PRIMARY KEY,
    fence  INTEGER NOT NULL,
    holder TEXT    NOT NULL
) WITHOUT ROWID""",
}


def check_identifier(text: str) -> str:
    """Return a name of a table or column that needs no quotes in a statement; else `ValueError`."""
    if not re.fullmatch(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)?", text, re.ASCII):
        raise ValueError(
            f"{text!r}: the name of a table or column must be letters, digits and '_', with at most "
            "one '.' after a schema"
        )
    return text


class BaseSqlGuard:
    """What `SqlGuard` and `AsyncSqlGuard` share."""

    _blocking: ClassVar[bool] = True
    _open: Callable[[], Any] | None

    def __init__(self, table: str) -> None:
        self.table = check_identifier(table)

    @property
    def acts_alone(self) -> bool:
        """Whether `lock(…, guard=…)` can use it: it can open a connection of its own."""
        return self._open is not None

    def schema(self, dialect: str) -> str:
        """The statement that creates the table, for applications that may not create tables themselves.

        `dialect` is "postgresql", "mysql" or "sqlite".
        """
        known = known_dialect(dialect)
        if known is None:
            raise ValueError(f"there is a schema for {', '.join(_CREATE)}, not for {dialect!r}")
        return self._sql(_CREATE[known]).strip()

    def _sql(self, text: str) -> str:
        return text.format(table=self.table)


class AsyncSqlGuard(BaseSqlGuard):
    """`SqlGuard` for asyncio: connections of psycopg and asyncmy, and SQLAlchemy's async ones."""

    _blocking = False

    def __init__(
        self,
        table: str = "fences",
        *,
        open: Callable[[], AbstractAsyncContextManager[Any]] | None = None,
    ) -> None:
        super().__init__(table)
        self._open = open

    async def create(self: BaseSqlGuard, connection: Any) -> None:
        """Create the table unless it is there."""
        session = session_of(connection, blocking=self._blocking)
        dialect, _ = await session.look()
        await session.run(self._sql(_CREATE[dialect]))

    async def check(self: BaseSqlGuard, connection: Any, lease: LeaseLike) -> None:
        """Call this first in a transaction: all that follows in it is fenced.

        `StaleFence` if a newer holder was here.
        """
        session = session_of(connection, blocking=self._blocking)
        dialect, protected = await session.look()
        if not protected:
            raise Unsupported(
                "this connection commits every statement by itself, so a refused write could not be "
                "rolled back: begin a transaction, and check first in it"
            )
        name, given = _stored(dialect, lease.name), (lease.fence, holder_of(lease))
        if dialect == "mysql":
            await session.run(self._sql(_RAISE), name, *given)
            found = stamped((await session.ask(self._sql(_LOCKED), name))[0])
            if found == given:
                return
            newest = found[0]
        else:
            if await session.ask(self._sql(_UPSERT), name, *given):
                return
            newest = await AsyncSqlGuard.newest(self, connection, lease.name)
        raise refused("sql", lease, newest)

    async def newest(self: BaseSqlGuard, connection: Any, name: str) -> int:
        """The newest fence that was seen for a name, 0 if there is none."""
        session = session_of(connection, blocking=self._blocking)
        dialect, _ = await session.look()
        found = await session.ask(self._sql(_NEWEST), _stored(dialect, name))
        return int(found[0][0]) if found else 0

    async def raise_fence(self: BaseSqlGuard, lease: LeaseLike) -> None:
        """The read barrier: after this no older holder can write any more.

        So what you read then stays true until you write, or your write is refused.
        """
        if self._open is None:
            raise Unsupported(
                f"to raise the fence by itself, the guard needs {type(self).__name__}(open=…)"
            )
        if self._blocking:
            with self._open() as connection:
                await AsyncSqlGuard.check(self, connection, lease)
        else:
            async with self._open() as connection:
                await AsyncSqlGuard.check(self, connection, lease)


class SqlGuard(BaseSqlGuard):
    """Refuses a stale holder's transaction, in PostgreSQL, MySQL, MariaDB and SQLite.

    It takes connections of psycopg, PyMySQL, sqlite3 and apsw, sessions and connections of SQLAlchemy, and
    Django's. `open` is needed only for `raise_fence` and `lock(…, guard=…)`: it returns a connection for a
    `with` block that commits at its end, as SQLAlchemy's `engine.begin` does.
    """

    def __init__(
        self,
        table: str = "fences",
        *,
        open: Callable[[], AbstractContextManager[Any]] | None = None,
    ) -> None:
        super().__init__(table)
        self._open = open

    create = blocking(AsyncSqlGuard.create)
    check = blocking(AsyncSqlGuard.check)
    newest = blocking(AsyncSqlGuard.newest)
    raise_fence = blocking(AsyncSqlGuard.raise_fence)


def _stored(dialect: Dialect, name: str) -> str | bytes:
    return name.encode() if dialect == "mysql" else name
