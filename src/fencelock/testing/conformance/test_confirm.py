"""`lease.confirm()`: the engine itself says whether the lease is held."""

from __future__ import annotations

import pytest

import fencelock
from fencelock.testing.conformance.cells import Cell


async def test_a_holder_hears_that_it_holds(cell: Cell) -> None:
    client = cell.client()
    lease = await cell.run(client.lock(cell.name).acquire)
    await cell.run(lease.confirm)
    lease.check()
    await cell.run(lease.release)
    with pytest.raises(fencelock.LeaseLost, match="already released"):
        await cell.run(lease.confirm)


async def test_a_holder_hears_at_once_that_its_lock_was_broken(cell: Cell) -> None:
    client, other = cell.client(), cell.client()
    lease = await cell.run(client.lock(cell.name).acquire)
    assert await cell.run(lambda: other.break_lock(cell.name))
    with pytest.raises(fencelock.LeaseLost, match="is lost"):
        await cell.run(lease.confirm)
    assert lease.lost
