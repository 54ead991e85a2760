"""Guards for SQL databases: one row per name, checked first in the user's own transaction.

Whatever they write after it is fenced, in whatever tables: the check locks the row until their commit, so
an older holder waits for that and is then refused, and its transaction is rolled back.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from typing import Any

from fencelock.core.errors import StaleFence, Unsupported
from fencelock.guards.sessions import Dialect, Session, known_dialect, session_of, stamped
from fencelock.guards.stamp import Stamp, holder_of
from fencelock.io.blocking import run

_UPSERT = """
INSERT INTO {table} AS f (name, fence, holder) VALUES ({{}}, {{}}, {{}})
    ON CONFLICT (name) DO UPDATE SET fence = excluded.fence, holder = excluded.holder
 WHERE f.fence < excluded.fence OR (f.fence = excluded.fence AND f.holder = excluded.holder)
RETURNING fence"""

# Two statements, because MySQL has no RETURNING, and because it says "0 rows" of a row that it found and
# had nothing to change in. The first locks the row; values are set from left to right.
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
    """A table's or column's name that can stand in a statement as it is."""
    if not re.fullmatch(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)?", text, re.ASCII):
        raise ValueError(
            f"{text!r}: a table or column must be named by letters, digits and '_', with at most "
            "one '.' after a schema"
        )
    return text


async def require_transaction(session: Session) -> Dialect:
    """The dialect; an error if there is no transaction that could be rolled back."""
    dialect, protected = await session.look()
    if not protected:
        raise Unsupported(
            "this connection commits every statement by itself, so there is nothing that could be "
            "rolled back: begin a transaction, and check first in it"
        )
    return dialect


class _Rows:
    """What both faces share."""

    _open: Callable[[], Any] | None

    def __init__(self, table: str) -> None:
        self.table = check_identifier(table)

    @property
    def acts_alone(self) -> bool:
        """Whether it can raise the fence by itself, as `lock(…, guard=…)` needs it."""
        return self._open is not None

    def schema(self, dialect: str) -> str:
        """The statement that creates the table, for those whose application may not: in "postgresql",
        "mysql" or "sqlite"."""
        known = known_dialect(dialect)
        if known is None:
            raise ValueError(f"there is a schema for {', '.join(_CREATE)}, not for {dialect!r}")
        return self._sql(_CREATE[known]).strip()

    def _sql(self, text: str) -> str:
        return text.format(table=self.table)

    async def _create(self, session: Session) -> None:
        dialect, _ = await session.look()
        await session.run(self._sql(_CREATE[dialect]))

    async def _check(self, session: Session, stamp: Stamp) -> None:
        dialect = await require_transaction(session)
        name, its = _stored(dialect, stamp.name), (stamp.fence, holder_of(stamp))
        if dialect == "mysql":
            await session.run(self._sql(_RAISE), name, *its)
            found = stamped((await session.ask(self._sql(_LOCKED), name))[0])
            if found == its:
                return
            newest = found[0]
        else:
            if await session.ask(self._sql(_UPSERT), name, *its):
                return
            newest = await self._newest(session, stamp.name)
        raise StaleFence(stamp.name, given=stamp.fence, newest=newest)

    async def _newest(self, session: Session, name: str) -> int:
        dialect, _ = await session.look()
        found = await session.ask(self._sql(_NEWEST), _stored(dialect, name))
        return int(found[0][0]) if found else 0


def _stored(dialect: Dialect, name: str) -> str | bytes:
    return name.encode() if dialect == "mysql" else name


class SqlGuard(_Rows):
    """Refuses a stale holder's transaction, in PostgreSQL, MySQL, MariaDB and SQLite.

    Takes connections of psycopg, PyMySQL, sqlite3 and apsw, sessions and connections of SQLAlchemy, and
    Django's. `open` gives a connection in a `with` block that commits at its end, as SQLAlchemy's
    `engine.begin` does; it is needed only where the guard has to act by itself.
    """

    def __init__(
        self,
        table: str = "fences",
        *,
        open: Callable[[], AbstractContextManager[Any]] | None = None,
    ) -> None:
        super().__init__(table)
        self._open = open

    def create(self, connection: Any) -> None:
        """Create the table unless it is there."""
        run(self._create(session_of(connection, blocking=True)))

    def check(self, connection: Any, lease: Stamp) -> None:
        """Call it first in a transaction: `StaleFence` if a newer holder was here, else all is fenced."""
        run(self._check(session_of(connection, blocking=True), lease))

    def newest(self, connection: Any, name: str) -> int:
        """The newest fence that was seen for a name, 0 if there is none."""
        return run(self._newest(session_of(connection, blocking=True), name))

    def raise_fence(self, lease: Stamp) -> None:
        """The read barrier: after this no older holder can write any more. So what you read then stays true
        until you write, or your write is refused."""
        if self._open is None:
            raise Unsupported("to raise the fence by itself the guard needs SqlGuard(open=…)")
        with self._open() as connection:
            self.check(connection, lease)


class AsyncSqlGuard(_Rows):
    """The same for asyncio: connections of psycopg and asyncmy, SQLAlchemy's async ones."""

    def __init__(
        self,
        table: str = "fences",
        *,
        open: Callable[[], AbstractAsyncContextManager[Any]] | None = None,
    ) -> None:
        super().__init__(table)
        self._open = open

    async def create(self, connection: Any) -> None:
        """Create the table unless it is there."""
        await self._create(session_of(connection, blocking=False))

    async def check(self, connection: Any, lease: Stamp) -> None:
        """Call it first in a transaction: `StaleFence` if a newer holder was here, else all is fenced."""
        await self._check(session_of(connection, blocking=False), lease)

    async def newest(self, connection: Any, name: str) -> int:
        """The newest fence that was seen for a name, 0 if there is none."""
        return await self._newest(session_of(connection, blocking=False), name)

    async def raise_fence(self, lease: Stamp) -> None:
        """The read barrier: after this no older holder can write any more. So what you read then stays true
        until you write, or your write is refused."""
        if self._open is None:
            raise Unsupported("to raise the fence by itself the guard needs AsyncSqlGuard(open=…)")
        async with self._open() as connection:
            await self.check(connection, lease)
