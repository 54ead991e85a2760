"""Every kind of connection that a guard takes, behind one interface: a test is written once for all."""

from __future__ import annotations

import inspect
import sqlite3
from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, ClassVar
from uuid import uuid4

import apsw
import asyncmy
import psycopg
import pymysql
from psycopg.rows import dict_row
from pymysql.cursors import DictCursor
from sqlalchemy import create_engine, text
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from sqlalchemy.orm import Session, scoped_session, sessionmaker

from fencelock.guards import AsyncColumnGuard, AsyncSqlGuard, ColumnGuard, SqlGuard
from fencelock.guards.sessions import Dialect
from tests.guards.lease_likes import LeaseLike
from tests.guards.stores import PATIENCE, PLAIN, mysql_options


async def settled(result: Any) -> Any:
    """The result, awaited if necessary."""
    return await result if inspect.isawaitable(result) else result


class Database(ABC):
    """One kind of connection, a table to guard and the guards for it."""

    dialect: ClassVar[Dialect]
    blocking: ClassVar[bool] = True
    placeholder: ClassVar[str] = "%s"

    def __init__(self, where: str) -> None:
        self.where = where
        self.table = f"accounts_{uuid4().hex}"
        fences = f"fences_{uuid4().hex}"
        self.guard: Any = (SqlGuard if self.blocking else AsyncSqlGuard)(fences)
        self.columns: Any = (ColumnGuard if self.blocking else AsyncColumnGuard)(self.table)
        self._opened: list[Any] = []

    @abstractmethod
    async def _open(self, autocommit: bool) -> Any:
        """A connection or a session."""

    async def open(self, *, autocommit: bool = False, level: str = "") -> Any:
        connection = await self._open(autocommit)
        self._opened.append(connection)
        if level:
            scope = {"postgresql": "CHARACTERISTICS AS TRANSACTION", "mysql": "TRANSACTION"}
            await self.run(connection, f"SET SESSION {scope[self.dialect]} ISOLATION LEVEL {level}")
            await self.commit(connection)
        return connection

    async def set_up(self) -> None:
        """Make the tables, with a balance of 100."""
        connection = await self.open()
        await settled(self.guard.create(connection))
        await self.run(
            connection,
            f"CREATE TABLE {self.table} (id INTEGER PRIMARY KEY, balance INTEGER, "
            "fence BIGINT, holder VARCHAR(64))",
        )
        await self.run(connection, f"INSERT INTO {self.table} (id, balance) VALUES (1, 100)")
        await self.commit(connection)

    async def check(self, connection: Any, stamp: LeaseLike) -> None:
        await settled(self.guard.check(connection, stamp))

    async def pay_in(self, connection: Any, amount: int) -> None:
        await self.run(
            connection, f"UPDATE {self.table} SET balance = balance + {{}} WHERE id = 1", amount
        )

    async def balance(self, connection: Any = None) -> int:
        """The balance as this connection sees it, or as a new connection does."""
        witness = connection or await self.open()
        ((balance,),) = await self.run(witness, f"SELECT balance FROM {self.table} WHERE id = 1")
        if connection is None:
            await self.rollback(witness)
        return int(balance)

    async def newest(self, name: str) -> int:
        connection = await self.open()
        newest = await settled(self.guard.newest(connection, name))
        await self.rollback(connection)
        return int(newest)

    async def run(self, connection: Any, sql: str, *values: Any) -> Sequence[Any]:
        cursor = connection.cursor()
        try:
            await settled(cursor.execute(sql.replace("{}", self.placeholder), values))
            rows = await settled(cursor.fetchall()) if cursor.description else []
        finally:
            await settled(cursor.close())
        return [tuple(row.values()) if isinstance(row, dict) else row for row in rows]

    async def commit(self, connection: Any) -> None:
        await settled(connection.commit())

    async def rollback(self, connection: Any) -> None:
        await settled(connection.rollback())

    async def _close(self, connection: Any) -> None:
        await settled(connection.close())

    async def close(self) -> None:
        for connection in self._opened:
            with suppress(pymysql.err.Error):  # it was closed already
                await self._close(connection)


class SqliteDatabase(Database):
    dialect = "sqlite"
    placeholder = "?"

    async def _open(self, autocommit: bool) -> Any:
        return sqlite3.connect(
            self.where,
            timeout=PATIENCE,
            check_same_thread=False,
            isolation_level=None if autocommit else "DEFERRED",
        )


class SqliteRowsDatabase(SqliteDatabase):
    """Rows as dicts, and a transaction that takes the lock at once."""

    async def _open(self, autocommit: bool) -> Any:
        connection = await super()._open(autocommit)
        if not autocommit:
            connection.isolation_level = "IMMEDIATE"
        connection.row_factory = lambda cursor, row: {
            column[0]: value for column, value in zip(cursor.description, row, strict=True)
        }
        return connection


class ApswDatabase(Database):
    dialect = "sqlite"
    placeholder = "?"

    async def _open(self, autocommit: bool) -> Any:
        connection = apsw.Connection(self.where)
        connection.set_busy_timeout(PATIENCE * 1000)
        if not autocommit:
            connection.execute("BEGIN")
        return connection

    async def run(self, connection: Any, sql: str, *values: Any) -> Sequence[Any]:
        return list(connection.execute(sql.replace("{}", self.placeholder), values))

    async def commit(self, connection: Any) -> None:
        connection.execute("COMMIT; BEGIN")

    async def rollback(self, connection: Any) -> None:
        connection.execute("ROLLBACK; BEGIN")


class PsycopgDatabase(Database):
    dialect = "postgresql"

    async def _open(self, autocommit: bool) -> Any:
        return psycopg.connect(self.where, autocommit=autocommit)


class PsycopgDictDatabase(PsycopgDatabase):
    async def _open(self, autocommit: bool) -> Any:
        return psycopg.connect(self.where, autocommit=autocommit, row_factory=dict_row)


class AsyncPsycopgDatabase(Database):
    dialect = "postgresql"
    blocking = False

    async def _open(self, autocommit: bool) -> Any:
        return await psycopg.AsyncConnection.connect(self.where, autocommit=autocommit)


class PymysqlDatabase(Database):
    dialect = "mysql"

    async def _open(self, autocommit: bool) -> Any:
        return pymysql.connect(**PLAIN, **mysql_options(self.where), autocommit=autocommit)


class PymysqlDictDatabase(PymysqlDatabase):
    async def _open(self, autocommit: bool) -> Any:
        return pymysql.connect(
            **PLAIN, **mysql_options(self.where), autocommit=autocommit, cursorclass=DictCursor
        )


class PymysqlBytesDatabase(PymysqlDatabase):
    """Text comes as bytes."""

    async def _open(self, autocommit: bool) -> Any:
        return pymysql.connect(
            **PLAIN, **mysql_options(self.where), autocommit=autocommit, use_unicode=False
        )


class AsyncmyDatabase(Database):
    dialect = "mysql"
    blocking = False

    async def _open(self, autocommit: bool) -> Any:
        return await asyncmy.connect(**mysql_options(self.where), autocommit=autocommit)


class SqlalchemyDatabase(Database):
    """A Connection."""

    driver: ClassVar[str]

    def __init__(self, where: str) -> None:
        super().__init__(where)
        make: Any = create_engine if self.blocking else create_async_engine
        address = f"/{where}" if self.dialect == "sqlite" else where.partition("://")[2]
        self._engine = make(
            f"{self.dialect}+{self.driver}://{address}", connect_args=self._arguments()
        )
        self._free = self._engine.execution_options(isolation_level="AUTOCOMMIT")

    def _arguments(self) -> dict[str, Any]:
        if self.dialect == "sqlite":
            return {"timeout": PATIENCE}
        return PLAIN if self.driver == "pymysql" else {}

    async def _open(self, autocommit: bool) -> Any:
        engine = self._free if autocommit else self._engine
        connection = engine.connect()
        return connection if self.blocking else await connection

    async def run(self, connection: Any, sql: str, *values: Any) -> Sequence[Any]:
        named = {f"v{number}": value for number, value in enumerate(values)}
        sql = sql.format(*(f":{name}" for name in named))
        result = await settled(connection.execute(text(sql), named))
        return result.fetchall() if result.returns_rows else []

    async def close(self) -> None:
        await super().close()
        await settled(self._engine.dispose())


class SessionDatabase(SqlalchemyDatabase):
    async def _open(self, autocommit: bool) -> Any:
        engine = self._free if autocommit else self._engine
        return Session(engine) if self.blocking else AsyncSession(engine)


class ScopedDatabase(SqlalchemyDatabase):
    async def _open(self, autocommit: bool) -> Any:
        # One session per test, not per thread: nobody could close the session of a thread that has ended.
        make = sessionmaker(self._free if autocommit else self._engine)
        return scoped_session(make, scopefunc=lambda: self)


def _sqlalchemy() -> dict[str, type[Database]]:
    """Connections and sessions, sync and async, on each database."""
    drivers: list[tuple[Dialect, bool, str]] = [
        ("sqlite", True, "pysqlite"),
        ("sqlite", False, "aiosqlite"),
        ("postgresql", True, "psycopg"),
        ("postgresql", False, "psycopg"),
        ("mysql", True, "pymysql"),
        ("mysql", False, "asyncmy"),
    ]
    databases: dict[str, type[Database]] = {}
    for kind, base in (("connection", SqlalchemyDatabase), ("session", SessionDatabase)):
        for dialect, blocking, driver in drivers:
            face = "" if blocking else "async-"
            attributes = {"dialect": dialect, "blocking": blocking, "driver": driver}
            databases[f"sqlalchemy-{face}{kind}-{dialect}"] = type(
                base.__name__, (base,), attributes
            )
    attributes = {"dialect": "sqlite", "driver": "pysqlite"}
    return {**databases, "sqlalchemy-scoped": type("ScopedDatabase", (ScopedDatabase,), attributes)}


DATABASES: dict[str, type[Database]] = {
    "sqlite3": SqliteDatabase,
    "sqlite3-dicts": SqliteRowsDatabase,
    "apsw": ApswDatabase,
    "psycopg": PsycopgDatabase,
    "psycopg-dicts": PsycopgDictDatabase,
    "psycopg-async": AsyncPsycopgDatabase,
    "pymysql": PymysqlDatabase,
    "pymysql-dicts": PymysqlDictDatabase,
    "pymysql-bytes": PymysqlBytesDatabase,
    "asyncmy": AsyncmyDatabase,
    **_sqlalchemy(),
}
