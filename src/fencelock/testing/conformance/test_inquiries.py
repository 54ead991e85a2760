"""What is asked about an engine and a name, and what a lease says of itself."""

from __future__ import annotations

from datetime import timedelta

from fencelock.engines.contract import PINGED
from fencelock.testing.conformance.cells import Cell, lasting


async def test_an_engine_that_answers_says_how_long_it_took(cell: Cell) -> None:
    client = cell.client()
    assert 0 < await cell.run(client.ping) < 60
    assert PINGED not in await cell.run(client.names)


async def test_whether_a_name_is_held(cell: Cell) -> None:
    client, other = cell.client(), cell.client()
    lock = client.lock(cell.name)
    assert await cell.run(other.lock(cell.name).locked) is False
    lease = await cell.run(lock.acquire)
    assert await cell.run(other.lock(cell.name).locked) is True
    assert await cell.run(lock.locked) is True
    await cell.run(lease.release)
    assert await cell.run(lock.locked) is False


async def test_a_lease_is_true_while_it_is_held(cell: Cell) -> None:
    client = cell.client()
    lock = client.lock(cell.name, **lasting(client, timedelta(seconds=20)))
    lease = await cell.run(lambda: lock.acquire(timeout=timedelta(minutes=1)))
    assert lease
    assert not lease.lost
    await cell.run(lease.release)
    assert not lease
    assert not lease.lost  # released, not lost
    lease = await cell.run(lock.acquire)
    assert await cell.run(lambda: client.break_lock(cell.name))
    assert not lease
    assert lease.lost
