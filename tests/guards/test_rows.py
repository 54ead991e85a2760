"""SqlGuard on every kind of connection: which holders it accepts, and what a refused one leaves."""

from __future__ import annotations

import asyncio
import sqlite3
from typing import Any

import psycopg
import pytest

from fencelock import StaleFence, Unsupported
from fencelock.guards import AsyncSqlGuard, SqlGuard
from tests.guards.databases import DATABASES, Database, settled
from tests.guards.lease_likes import FIRST, LeaseLike
from tests.waiting import soon

ON_SERVERS = [name for name, kind in DATABASES.items() if kind.dialect != "sqlite"]
LEVELS = ("READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE")


async def write(database: Database, stamp: LeaseLike, amount: int, **options: Any) -> None:
    """A whole transaction, as a user would write it."""
    connection = await database.open(**options)
    try:
        await database.check(connection, stamp)
        await database.pay_in(connection, amount)
    except BaseException:
        await database.rollback(connection)
        raise
    await database.commit(connection)


async def test_a_newer_holder_is_accepted(database: Database) -> None:
    await write(database, FIRST, 1)
    await write(database, FIRST.newer(), 10)
    await write(database, FIRST.newer().newer(), 100)
    assert await database.balance() == 211
    assert await database.newest(FIRST.name) == FIRST.fence + 2


async def test_the_same_holder_may_write_many_times(database: Database) -> None:
    connection = await database.open()
    for _ in range(3):
        await database.check(connection, FIRST)
        await database.check(connection, FIRST)
        await database.pay_in(connection, 1)
        await database.commit(connection)
    assert await database.balance() == 103


@pytest.mark.parametrize("stale", [FIRST, FIRST.newer().rival()], ids=["older", "same fence"])
async def test_a_stale_holder_is_refused(database: Database, stale: LeaseLike) -> None:
    await write(database, FIRST.newer(), 1)
    with pytest.raises(StaleFence) as refused:
        await write(database, stale, 10)
    error = refused.value
    assert (error.name, error.given, error.newest) == (FIRST.name, stale.fence, FIRST.fence + 1)
    assert type(error.newest) is int
    assert await database.balance() == 101
    await write(database, FIRST.newer(), 100)  # and is not in anybody's way
    assert await database.balance() == 201


async def test_what_was_written_before_the_check_is_rolled_back_too(database: Database) -> None:
    await write(database, FIRST.newer(), 1)
    connection = await database.open()
    await database.pay_in(connection, 10)
    with pytest.raises(StaleFence):
        await database.check(connection, FIRST)
    await database.rollback(connection)
    assert await database.balance() == 101


async def test_a_rolled_back_transaction_raises_no_fence(database: Database) -> None:
    connection = await database.open()
    await database.check(connection, FIRST.newer())
    await database.rollback(connection)
    assert await database.newest(FIRST.name) == 0
    await write(database, FIRST, 1)


async def test_without_a_transaction_there_is_nothing_to_protect(database: Database) -> None:
    connection = await database.open(autocommit=True)
    with pytest.raises(Unsupported, match="begin a transaction"):
        await database.check(connection, FIRST)
    assert await database.newest(FIRST.name) == 0


@pytest.mark.parametrize(
    "database", ["sqlite3", "apsw", "psycopg", "psycopg-async", "pymysql", "asyncmy"], indirect=True
)
async def test_a_transaction_may_be_begun_by_hand(database: Database) -> None:
    connection = await database.open(autocommit=True)
    await database.run(connection, "BEGIN")
    await database.check(connection, FIRST)
    await database.run(connection, "ROLLBACK")
    assert await database.newest(FIRST.name) == 0
    with pytest.raises(Unsupported):  # it is over
        await database.check(connection, FIRST)


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("database", ON_SERVERS, indirect=True)
async def test_isolation_levels(database: Database, level: str) -> None:
    await write(database, FIRST, 1, level=level)
    await write(database, FIRST.newer(), 10, level=level)
    with pytest.raises(StaleFence):
        await write(database, FIRST, 100, level=level)
    assert await database.balance() == 111


async def test_a_savepoint_takes_back_what_came_after_it_only(database: Database) -> None:
    connection = await database.open()
    await database.check(connection, FIRST)
    await database.pay_in(connection, 1)
    await database.run(connection, "SAVEPOINT s")
    await database.check(connection, FIRST)
    await database.pay_in(connection, 10)
    await database.run(connection, "ROLLBACK TO SAVEPOINT s")
    await database.pay_in(connection, 100)
    await database.commit(connection)
    assert await database.balance() == 201
    assert await database.newest(FIRST.name) == FIRST.fence


async def test_a_stale_holder_waits_for_the_newer_ones_commit(database: Database) -> None:
    """Both transactions are open at once: what the older one read is not true any more."""
    newer, older = await database.open(), await database.open()
    waiting = await behind(database, newer, older)
    await database.commit(newer)
    with pytest.raises(StaleFence):
        await waiting
    await database.rollback(older)
    assert await database.balance() == 101


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("database", ["psycopg", "pymysql"], indirect=True)
async def test_one_that_waited_is_refused_at_every_level(database: Database, level: str) -> None:
    """Above the first PostgreSQL says "could not serialize", and the repeated transaction is refused."""
    newer, older = await database.open(level=level), await database.open(level=level)
    waiting = await behind(database, newer, older)
    await database.commit(newer)
    with pytest.raises((StaleFence, psycopg.errors.SerializationFailure)) as refused:
        await waiting
    await database.rollback(older)
    if database.dialect == "mysql" or level == "READ COMMITTED":
        assert refused.type is StaleFence
    with pytest.raises(StaleFence):
        await write(database, FIRST, 10, level=level)
    assert await database.balance() == 101


async def behind(database: Database, newer: Any, older: Any) -> asyncio.Task[None]:
    """The newer one has written and not yet committed; the older one's check, which waits for that."""
    await database.check(newer, FIRST.newer())
    await database.pay_in(newer, 1)
    waiting = in_background(database, older, FIRST)
    if database.dialect != "sqlite":  # which can't be asked
        witness = await database.open()
        await soon(lambda: _somebody_waits(database, witness), "the older one to wait for the row")
        await database.rollback(witness)
    return waiting


def in_background(database: Database, connection: Any, stamp: LeaseLike) -> asyncio.Task[None]:
    if database.blocking:
        return asyncio.create_task(asyncio.to_thread(database.guard.check, connection, stamp))
    return asyncio.create_task(database.guard.check(connection, stamp))


async def _somebody_waits(database: Database, witness: Any) -> bool:
    if database.dialect == "postgresql":
        question = "SELECT count(*) FROM pg_locks WHERE NOT granted"
    else:
        await settled(witness.rollback())
        question = (
            "SELECT count(*) FROM information_schema.processlist "
            f"WHERE INSTR(info, 'INSERT INTO {database.guard.table}') AND id <> CONNECTION_ID()"
        )
    ((count,),) = await database.run(witness, question)
    return bool(count)


async def test_a_newer_holder_follows_the_older_ones_commit(database: Database) -> None:
    older, newer = await database.open(), await database.open()
    await database.check(older, FIRST)
    await database.pay_in(older, 1)
    waiting = in_background(database, newer, FIRST.newer())
    await asyncio.sleep(0)
    await database.commit(older)
    await waiting
    assert await database.balance(newer) == 101, "what it reads behind the barrier is the newest"
    await database.commit(newer)


@pytest.mark.parametrize(
    "name",
    ["a 'quoted' %s {} :v0 name", 'with \\ and "', "größer 🔒", "order:42 ", "Order:42", "ß" * 256],
)
async def test_odd_names_are_names_of_their_own(database: Database, name: str) -> None:
    await write(database, FIRST.newer(), 1)
    await write(database, FIRST._replace(name=name), 10)
    assert await database.newest(name) == FIRST.fence
    with pytest.raises(StaleFence):
        await write(database, FIRST._replace(name=name, fence=1), 100)


async def test_huge_fences(database: Database) -> None:
    huge = FIRST._replace(fence=2**62)
    await write(database, huge, 1)
    await write(database, huge.newer(), 10)
    with pytest.raises(StaleFence) as refused:
        await write(database, huge, 100)
    assert refused.value.newest == 2**62 + 1


async def test_a_missing_table_is_named_by_the_database(database: Database) -> None:
    guard = type(database.guard)("there_is_none")
    connection = await database.open()
    with pytest.raises(Exception, match="there_is_none"):
        await settled(guard.check(connection, FIRST))
    await database.rollback(connection)


async def test_the_table_may_be_created_twice(database: Database) -> None:
    connection = await database.open()
    await database.check(connection, FIRST)
    await database.commit(connection)
    await settled(database.guard.create(connection))
    await database.commit(connection)
    assert await database.newest(FIRST.name) == FIRST.fence


async def test_those_who_may_not_create_get_the_statement(database: Database) -> None:
    guard = type(database.guard)(f"{database.guard.table}_by_hand")
    connection = await database.open()
    await database.run(connection, guard.schema(database.dialect))
    await settled(guard.check(connection, FIRST))
    await database.commit(connection)


def test_the_statement_by_other_names() -> None:
    guard = SqlGuard()
    for other, dialect in (("sqlite3", "sqlite"), ("postgres", "postgresql"), ("mariadb", "mysql")):
        assert guard.schema(other) == guard.schema(dialect)
    with pytest.raises(
        ValueError, match="a schema for postgresql, mysql, sqlite, not for 'oracle'"
    ):
        guard.schema("oracle")


async def test_the_id_itself_is_not_stored(database: Database) -> None:
    """A process that knows it could release the lock."""
    await write(database, FIRST, 1)
    connection = await database.open()
    ((holder,),) = await database.run(connection, f"SELECT holder FROM {database.guard.table}")
    await database.rollback(connection)
    assert FIRST.id not in str(holder)


@pytest.mark.parametrize("table", ["", "two words", "a;b", "a.b.c", 'x"', "1st", "größe"])
def test_a_table_that_cannot_be_named(table: str) -> None:
    for guard in (SqlGuard, AsyncSqlGuard):
        with pytest.raises(ValueError, match="letters, digits"):
            guard(table)


async def test_the_other_kind_of_connection(database: Database) -> None:
    connection = await database.open()
    guard: Any = AsyncSqlGuard() if database.blocking else SqlGuard()
    with pytest.raises(TypeError, match="other kind"):
        await settled(guard.check(connection, FIRST))


def test_no_connection_at_all() -> None:
    with pytest.raises(TypeError, match=r"psycopg.* is needed, not builtins\.str"):
        SqlGuard().check("accounts.db", FIRST)


class Ours(sqlite3.Connection):
    """A subclass of a connection is accepted, too."""


def test_a_subclass_will_do() -> None:
    connection = sqlite3.connect(":memory:", factory=Ours)
    guard = SqlGuard()
    guard.create(connection)
    guard.check(connection, FIRST)
    assert connection.in_transaction
    connection.close()
