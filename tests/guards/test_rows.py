"""SqlGuard on every kind of connection: who is accepted, who is refused, and what is left of it."""

from __future__ import annotations

import asyncio
import sqlite3
from typing import Any

import psycopg
import pytest

from fencelock import StaleFence, Unsupported
from fencelock.guards import AsyncSqlGuard, SqlGuard
from tests.guards.desks import DESKS, Desk, settled
from tests.guards.stamps import FIRST, Stamp
from tests.waiting import soon

ON_SERVERS = [name for name, kind in DESKS.items() if kind.dialect != "sqlite"]
LEVELS = ("READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE")


async def write(desk: Desk, stamp: Stamp, amount: int, **options: Any) -> None:
    """A whole transaction, as a user would write it."""
    connection = await desk.open(**options)
    try:
        await desk.check(connection, stamp)
        await desk.pay_in(connection, amount)
    except BaseException:
        await desk.rollback(connection)
        raise
    await desk.commit(connection)


async def test_a_newer_holder_is_accepted(desk: Desk) -> None:
    await write(desk, FIRST, 1)
    await write(desk, FIRST.newer(), 10)
    await write(desk, FIRST.newer().newer(), 100)
    assert await desk.balance() == 211
    assert await desk.newest(FIRST.name) == FIRST.fence + 2


async def test_the_same_holder_may_write_many_times(desk: Desk) -> None:
    connection = await desk.open()
    for _ in range(3):
        await desk.check(connection, FIRST)
        await desk.check(connection, FIRST)
        await desk.pay_in(connection, 1)
        await desk.commit(connection)
    assert await desk.balance() == 103


@pytest.mark.parametrize("stale", [FIRST, FIRST.newer().rival()], ids=["older", "same fence"])
async def test_a_stale_holder_is_refused(desk: Desk, stale: Stamp) -> None:
    await write(desk, FIRST.newer(), 1)
    with pytest.raises(StaleFence) as refused:
        await write(desk, stale, 10)
    error = refused.value
    assert (error.name, error.given, error.newest) == (FIRST.name, stale.fence, FIRST.fence + 1)
    assert type(error.newest) is int
    assert await desk.balance() == 101
    await write(desk, FIRST.newer(), 100)  # and is not in anybody's way
    assert await desk.balance() == 201


async def test_what_was_written_before_the_check_is_rolled_back_too(desk: Desk) -> None:
    await write(desk, FIRST.newer(), 1)
    connection = await desk.open()
    await desk.pay_in(connection, 10)
    with pytest.raises(StaleFence):
        await desk.check(connection, FIRST)
    await desk.rollback(connection)
    assert await desk.balance() == 101


async def test_a_rolled_back_transaction_raises_no_fence(desk: Desk) -> None:
    connection = await desk.open()
    await desk.check(connection, FIRST.newer())
    await desk.rollback(connection)
    assert await desk.newest(FIRST.name) == 0
    await write(desk, FIRST, 1)


async def test_without_a_transaction_there_is_nothing_to_protect(desk: Desk) -> None:
    connection = await desk.open(autocommit=True)
    with pytest.raises(Unsupported, match="begin a transaction"):
        await desk.check(connection, FIRST)
    assert await desk.newest(FIRST.name) == 0


@pytest.mark.parametrize(
    "desk", ["sqlite3", "apsw", "psycopg", "psycopg-async", "pymysql", "asyncmy"], indirect=True
)
async def test_a_transaction_may_be_begun_by_hand(desk: Desk) -> None:
    connection = await desk.open(autocommit=True)
    await desk.run(connection, "BEGIN")
    await desk.check(connection, FIRST)
    await desk.run(connection, "ROLLBACK")
    assert await desk.newest(FIRST.name) == 0
    with pytest.raises(Unsupported):  # it is over
        await desk.check(connection, FIRST)


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("desk", ON_SERVERS, indirect=True)
async def test_isolation_levels(desk: Desk, level: str) -> None:
    await write(desk, FIRST, 1, level=level)
    await write(desk, FIRST.newer(), 10, level=level)
    with pytest.raises(StaleFence):
        await write(desk, FIRST, 100, level=level)
    assert await desk.balance() == 111


async def test_a_savepoint_takes_back_what_came_after_it_only(desk: Desk) -> None:
    connection = await desk.open()
    await desk.check(connection, FIRST)
    await desk.pay_in(connection, 1)
    await desk.run(connection, "SAVEPOINT s")
    await desk.check(connection, FIRST)
    await desk.pay_in(connection, 10)
    await desk.run(connection, "ROLLBACK TO SAVEPOINT s")
    await desk.pay_in(connection, 100)
    await desk.commit(connection)
    assert await desk.balance() == 201
    assert await desk.newest(FIRST.name) == FIRST.fence


async def test_a_stale_holder_waits_for_the_newer_ones_commit(desk: Desk) -> None:
    """Both transactions are open at once: what the older one read is not true any more."""
    newer, older = await desk.open(), await desk.open()
    waiting = await behind(desk, newer, older)
    await desk.commit(newer)
    with pytest.raises(StaleFence):
        await waiting
    await desk.rollback(older)
    assert await desk.balance() == 101


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("desk", ["psycopg", "pymysql"], indirect=True)
async def test_one_that_waited_is_refused_at_every_level(desk: Desk, level: str) -> None:
    """Above the first PostgreSQL says "could not serialize", and the repeated transaction is refused."""
    newer, older = await desk.open(level=level), await desk.open(level=level)
    waiting = await behind(desk, newer, older)
    await desk.commit(newer)
    with pytest.raises((StaleFence, psycopg.errors.SerializationFailure)) as refused:
        await waiting
    await desk.rollback(older)
    if desk.dialect == "mysql" or level == "READ COMMITTED":
        assert refused.type is StaleFence
    with pytest.raises(StaleFence):
        await write(desk, FIRST, 10, level=level)
    assert await desk.balance() == 101


async def behind(desk: Desk, newer: Any, older: Any) -> asyncio.Task[None]:
    """The newer one has written and not yet committed; the older one's check, which waits for that."""
    await desk.check(newer, FIRST.newer())
    await desk.pay_in(newer, 1)
    waiting = in_background(desk, older, FIRST)
    if desk.dialect != "sqlite":  # which can't be asked
        witness = await desk.open()
        await soon(lambda: _somebody_waits(desk, witness), "the older one to wait for the row")
        await desk.rollback(witness)
    return waiting


def in_background(desk: Desk, connection: Any, stamp: Stamp) -> asyncio.Task[None]:
    if desk.blocking:
        return asyncio.create_task(asyncio.to_thread(desk.guard.check, connection, stamp))
    return asyncio.create_task(desk.guard.check(connection, stamp))


async def _somebody_waits(desk: Desk, witness: Any) -> bool:
    if desk.dialect == "postgresql":
        question = "SELECT count(*) FROM pg_locks WHERE NOT granted"
    else:
        await settled(witness.rollback())
        question = (
            "SELECT count(*) FROM information_schema.processlist "
            f"WHERE INSTR(info, 'INSERT INTO {desk.guard.table}') AND id <> CONNECTION_ID()"
        )
    ((count,),) = await desk.run(witness, question)
    return bool(count)


async def test_a_newer_holder_follows_the_older_ones_commit(desk: Desk) -> None:
    older, newer = await desk.open(), await desk.open()
    await desk.check(older, FIRST)
    await desk.pay_in(older, 1)
    waiting = in_background(desk, newer, FIRST.newer())
    await asyncio.sleep(0)
    await desk.commit(older)
    await waiting
    assert await desk.balance(newer) == 101, "what it reads behind the barrier is the newest"
    await desk.commit(newer)


@pytest.mark.parametrize(
    "name",
    ["a 'quoted' %s {} :v0 name", 'with \\ and "', "größer 🔒", "order:42 ", "Order:42", "ß" * 256],
)
async def test_odd_names_are_names_of_their_own(desk: Desk, name: str) -> None:
    await write(desk, FIRST.newer(), 1)
    await write(desk, FIRST._replace(name=name), 10)
    assert await desk.newest(name) == FIRST.fence
    with pytest.raises(StaleFence):
        await write(desk, FIRST._replace(name=name, fence=1), 100)


async def test_huge_fences(desk: Desk) -> None:
    huge = FIRST._replace(fence=2**62)
    await write(desk, huge, 1)
    await write(desk, huge.newer(), 10)
    with pytest.raises(StaleFence) as refused:
        await write(desk, huge, 100)
    assert refused.value.newest == 2**62 + 1


async def test_a_missing_table_is_named_by_the_database(desk: Desk) -> None:
    guard = type(desk.guard)("there_is_none")
    connection = await desk.open()
    with pytest.raises(Exception, match="there_is_none"):
        await settled(guard.check(connection, FIRST))
    await desk.rollback(connection)


async def test_the_table_may_be_created_twice(desk: Desk) -> None:
    connection = await desk.open()
    await desk.check(connection, FIRST)
    await desk.commit(connection)
    await settled(desk.guard.create(connection))
    await desk.commit(connection)
    assert await desk.newest(FIRST.name) == FIRST.fence


async def test_those_who_may_not_create_get_the_statement(desk: Desk) -> None:
    guard = type(desk.guard)(f"{desk.guard.table}_by_hand")
    connection = await desk.open()
    await desk.run(connection, guard.schema(desk.dialect))
    await settled(guard.check(connection, FIRST))
    await desk.commit(connection)


def test_the_statement_by_other_names() -> None:
    guard = SqlGuard()
    for other, dialect in (("sqlite3", "sqlite"), ("postgres", "postgresql"), ("mariadb", "mysql")):
        assert guard.schema(other) == guard.schema(dialect)
    with pytest.raises(
        ValueError, match="a schema for postgresql, mysql, sqlite, not for 'oracle'"
    ):
        guard.schema("oracle")


async def test_the_id_itself_is_not_stored(desk: Desk) -> None:
    """With it one could release the lock."""
    await write(desk, FIRST, 1)
    connection = await desk.open()
    ((holder,),) = await desk.run(connection, f"SELECT holder FROM {desk.guard.table}")
    await desk.rollback(connection)
    assert FIRST.id not in str(holder)


@pytest.mark.parametrize("table", ["", "two words", "a;b", "a.b.c", 'x"', "1st", "größe"])
def test_a_table_that_cannot_be_named(table: str) -> None:
    for guard in (SqlGuard, AsyncSqlGuard):
        with pytest.raises(ValueError, match="letters, digits"):
            guard(table)


async def test_the_other_kind_of_connection(desk: Desk) -> None:
    connection = await desk.open()
    guard: Any = AsyncSqlGuard() if desk.blocking else SqlGuard()
    with pytest.raises(TypeError, match="other kind"):
        await settled(guard.check(connection, FIRST))


def test_no_connection_at_all() -> None:
    with pytest.raises(TypeError, match=r"psycopg.* is needed, not builtins\.str"):
        SqlGuard().check("accounts.db", FIRST)


class Ours(sqlite3.Connection):
    """Somebody's own connection is as good."""


def test_a_subclass_will_do() -> None:
    connection = sqlite3.connect(":memory:", factory=Ours)
    guard = SqlGuard()
    guard.create(connection)
    guard.check(connection, FIRST)
    assert connection.in_transaction
    connection.close()
