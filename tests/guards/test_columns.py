"""ColumnGuard on every kind of connection: the fence stands in the row that it protects."""

from __future__ import annotations

from typing import Any

import pytest

from fencelock import StaleFence
from fencelock.guards import ColumnGuard
from tests.guards.desks import Desk, settled
from tests.guards.stamps import FIRST, Stamp


async def update(desk: Desk, stamp: Stamp, key: int = 1, **values: Any) -> None:
    connection = await desk.open()
    try:
        await settled(desk.columns.update(connection, stamp, key, **values))
    except BaseException:
        await desk.rollback(connection)
        raise
    await desk.commit(connection)


async def test_a_newer_holder_is_accepted(desk: Desk) -> None:
    await update(desk, FIRST, balance=1)
    await update(desk, FIRST.newer(), balance=2)
    assert await desk.balance() == 2


async def test_nothing_to_change_is_no_rejection(desk: Desk) -> None:
    """MySQL says "0 rows" then, as if the row had not been found."""
    for _ in range(3):
        await update(desk, FIRST, balance=1)
    await update(desk, FIRST, balance=2)
    assert await desk.balance() == 2


@pytest.mark.parametrize("stale", [FIRST, FIRST.newer().rival()], ids=["older", "same fence"])
async def test_a_stale_holder_is_refused(desk: Desk, stale: Stamp) -> None:
    await update(desk, FIRST.newer(), balance=1)
    with pytest.raises(StaleFence) as refused:
        await update(desk, stale, balance=2)
    assert (refused.value.given, refused.value.newest) == (stale.fence, FIRST.fence + 1)
    assert await desk.balance() == 1


async def test_it_needs_no_transaction(desk: Desk) -> None:
    """It is one statement, so it holds on a connection that commits each by itself, too."""
    connection = await desk.open(autocommit=True)
    await settled(desk.columns.update(connection, FIRST.newer(), 1, balance=1))
    with pytest.raises(StaleFence):
        await settled(desk.columns.update(connection, FIRST, 1, balance=2))
    assert await desk.balance() == 1


async def test_without_values_it_is_the_read_barrier(desk: Desk) -> None:
    await update(desk, FIRST.newer())
    with pytest.raises(StaleFence):
        await update(desk, FIRST, balance=2)
    assert await desk.balance() == 100


async def test_huge_fences(desk: Desk) -> None:
    huge = FIRST._replace(fence=2**62)
    await update(desk, huge.newer(), balance=1)
    with pytest.raises(StaleFence):
        await update(desk, huge, balance=2)


async def test_there_is_no_such_row(desk: Desk) -> None:
    with pytest.raises(LookupError, match=f"{desk.table} has no row with id = 7"):
        await update(desk, FIRST, key=7, balance=1)


async def test_a_column_that_cannot_be_named(desk: Desk) -> None:
    with pytest.raises(ValueError, match="letters, digits"):
        await update(desk, FIRST, **{"balance = 0 --": 1})
    for odd in ({"key": "a b"}, {"fence": "x'"}, {"holder": ""}):
        with pytest.raises(ValueError, match="letters, digits"):
            ColumnGuard("accounts", **odd)
