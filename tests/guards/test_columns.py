"""ColumnGuard on every kind of connection: the fence is in the row that it protects."""

from __future__ import annotations

from typing import Any

import pytest

from fencelock import StaleFence
from fencelock.guards import ColumnGuard
from tests.guards.databases import Database, settled
from tests.guards.lease_likes import FIRST, LeaseLike


async def update(database: Database, stamp: LeaseLike, key: int = 1, **values: Any) -> None:
    connection = await database.open()
    try:
        await settled(database.columns.update(connection, stamp, key, **values))
    except BaseException:
        await database.rollback(connection)
        raise
    await database.commit(connection)


async def test_a_newer_holder_is_accepted(database: Database) -> None:
    await update(database, FIRST, balance=1)
    await update(database, FIRST.newer(), balance=2)
    assert await database.balance() == 2


async def test_nothing_to_change_is_no_rejection(database: Database) -> None:
    """MySQL says "0 rows" then, as if the row had not been found."""
    for _ in range(3):
        await update(database, FIRST, balance=1)
    await update(database, FIRST, balance=2)
    assert await database.balance() == 2


@pytest.mark.parametrize("stale", [FIRST, FIRST.newer().rival()], ids=["older", "same fence"])
async def test_a_stale_holder_is_refused(database: Database, stale: LeaseLike) -> None:
    await update(database, FIRST.newer(), balance=1)
    with pytest.raises(StaleFence) as refused:
        await update(database, stale, balance=2)
    assert (refused.value.given, refused.value.newest) == (stale.fence, FIRST.fence + 1)
    assert await database.balance() == 1


async def test_it_needs_no_transaction(database: Database) -> None:
    """It is one statement, so it holds on a connection that commits each by itself, too."""
    connection = await database.open(autocommit=True)
    await settled(database.columns.update(connection, FIRST.newer(), 1, balance=1))
    with pytest.raises(StaleFence):
        await settled(database.columns.update(connection, FIRST, 1, balance=2))
    assert await database.balance() == 1


async def test_without_values_it_is_the_read_barrier(database: Database) -> None:
    await update(database, FIRST.newer())
    with pytest.raises(StaleFence):
        await update(database, FIRST, balance=2)
    assert await database.balance() == 100


async def test_huge_fences(database: Database) -> None:
    huge = FIRST._replace(fence=2**62)
    await update(database, huge.newer(), balance=1)
    with pytest.raises(StaleFence):
        await update(database, huge, balance=2)


async def test_there_is_no_such_row(database: Database) -> None:
    with pytest.raises(LookupError, match=f"{database.table} has no row with id = 7"):
        await update(database, FIRST, key=7, balance=1)


async def test_a_column_that_cannot_be_named(database: Database) -> None:
    with pytest.raises(ValueError, match="letters, digits"):
        await update(database, FIRST, **{"balance = 0 --": 1})
    for odd in ({"key": "a b"}, {"fence": "x'"}, {"holder": ""}):
        with pytest.raises(ValueError, match="letters, digits"):
            ColumnGuard("accounts", **odd)
