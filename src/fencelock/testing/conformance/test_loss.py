"""Holders that die or are stopped, engines that go away: what is lost, who is told, and when."""

import asyncio
from typing import Any

import pytest

import fencelock
from fencelock.testing.conformance.cells import Cell, lasting, queued
from fencelock.testing.conformance.waiting import PATIENCE, within

TTL = 2.0
"""Long enough that a machine under load does not lose a lease by itself."""


async def test_a_broken_lock_is_lost_and_passed_on(cell: Cell) -> None:
    client = cell.client()
    told: list[Any] = []
    holder = cell.actor()
    lease = await holder.do(
        lambda: client.lock(cell.name, on_lost=told.append, **lasting(client, TTL)).acquire()
    )
    heir = cell.actor().start(lambda: client.lock(cell.name).acquire())
    await queued(cell, client, 1)
    assert await cell.run(lambda: client.break_lock(cell.name)) is True
    assert (await within(heir)).abandoned
    assert await holder.do(lambda: lease.lost.wait(PATIENCE))
    assert told == [lease]
    with pytest.raises(fencelock.LeaseLost, match="is lost") as caught:
        lease.check()
    assert caught.value.name == cell.name
    assert caught.value.reason
    with pytest.raises(fencelock.LeaseLost):
        await holder.do(lease.release)
    assert lease.remaining() == 0
    assert await cell.run(lambda: client.break_lock(cell.name + ":nobody")) is False


async def test_a_lost_lease_is_raised_at_the_end_of_the_body(cell: Cell) -> None:
    client = cell.client()

    with pytest.raises(fencelock.LeaseLost):
        await cell.run(lambda: _broken_inside(cell, client, fails=False))
    with pytest.raises(ZeroDivisionError) as caught:
        await cell.run(lambda: _broken_inside(cell, client, fails=True))
    assert "is lost" in caught.value.__notes__[0]


def _broken_inside(cell: Cell, client: Any, *, fails: bool) -> Any:
    lock = client.lock(cell.name, **lasting(client, 0.3))
    if cell.face == "async":
        return _broken_inside_async(cell, client, lock, fails)
    with lock as lease:
        client.break_lock(cell.name)
        assert lease.lost.wait(PATIENCE)
        if fails:
            raise ZeroDivisionError
    return None


async def _broken_inside_async(cell: Cell, client: Any, lock: Any, fails: bool) -> None:
    async with lock as lease:
        await client.break_lock(cell.name)
        assert await lease.lost.wait(PATIENCE)
        if fails:
            raise ZeroDivisionError


async def test_losing_the_lease_cancels_the_body_on_request(async_cell: Cell) -> None:
    cell = async_cell
    client = cell.client()
    lock = client.lock(cell.name, on_lost="cancel", **lasting(client, 0.3))

    async def work() -> None:
        async with lock:
            await client.break_lock(cell.name)
            await asyncio.sleep(60)

    async def work_in_the_lease() -> None:
        lease = await lock.acquire()
        async with lease:
            await client.break_lock(cell.name)
            await asyncio.sleep(60)

    for body in (work, work_in_the_lease):
        with pytest.raises(fencelock.LeaseLost):
            await body()
    task = asyncio.current_task()
    assert task is not None
    assert task.cancelling() == 0


async def test_someone_elses_cancellation_stays_a_cancellation(async_cell: Cell) -> None:
    client = async_cell.client()
    inside = asyncio.Event()

    async def work() -> None:
        async with client.lock(async_cell.name, on_lost="cancel"):
            inside.set()
            await asyncio.sleep(60)

    task = asyncio.create_task(work())
    await inside.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert not (await client.inspect(async_cell.name)).holders


async def test_leases_are_renewed_for_as_long_as_they_are_held(cell: Cell) -> None:
    client = cell.client()
    ttl = 1.5 * TTL  # a machine that stalls for half of it takes no lease away
    locks = [client.lock(f"{cell.name}:{number}", **lasting(client, ttl)) for number in range(5)]
    leases = [await cell.run(lock.acquire) for lock in locks]
    await asyncio.sleep(1.25 * ttl)  # time itself is under test
    for lease in leases:
        lease.check()
        assert lease.state is fencelock.LeaseState.HELD
        assert 0 < lease.remaining() <= lease.ttl
        await cell.run(lease.release)


async def test_renewing_by_hand_with_another_ttl(cell: Cell) -> None:
    cell.needs("leases_expire")
    client = cell.client()
    lease = await cell.run(lambda: client.lock(cell.name, ttl=5).acquire())
    await cell.run(lambda: lease.renew(ttl=60))
    assert 5 < lease.remaining() <= 60
    assert lease.ttl == 60
    assert (await cell.run(lambda: client.inspect(cell.name))).holders[0].expires_in > 5
    await cell.run(lambda: lease.renew(ttl=2))
    assert lease.remaining() <= 2
    with pytest.raises(ValueError, match="ttl must be between"):
        await cell.run(lambda: lease.renew(ttl=-1))
    await cell.run(lease.release)
    with pytest.raises(fencelock.LeaseLost):
        await cell.run(lease.renew)


async def test_abandoned_is_about_the_one_before_only(cell: Cell) -> None:
    client = cell.client()
    first = await cell.run(lambda: client.lock(cell.name).acquire())
    assert not first.abandoned
    await cell.run(lambda: client.break_lock(cell.name))
    second = await cell.run(lambda: client.lock(cell.name).acquire())
    assert second.abandoned
    await cell.run(second.release)
    third = await cell.run(lambda: client.lock(cell.name).acquire())
    assert not third.abandoned


async def test_an_engine_without_expiry_takes_no_ttl(cell: Cell) -> None:
    client = cell.client()
    lease = await cell.run(client.lock(cell.name).acquire)
    if client.traits.leases_expire:
        assert lease.ttl == 30
        return
    assert lease.ttl == 3 * client.traits.heartbeat
    for ask in (
        lambda: client.lock(cell.name, ttl=5),
        lambda: client.locked(cell.name, ttl=5),
        lambda: cell.client(ttl=5),
        lambda: lease.renew(ttl=5),
    ):
        with pytest.raises(fencelock.Unsupported, match="last as long as their connection"):
            await cell.run(ask)
    lease.check()
    await cell.run(lease.renew)


async def test_a_broken_lock_is_free_when_the_call_returns(cell: Cell) -> None:
    client, other = cell.client(), cell.client()
    for _ in range(20):
        broken = await cell.run(client.lock(cell.name).acquire)
        assert await cell.run(lambda: other.break_lock(cell.name))
        assert not (await cell.run(lambda: other.inspect(cell.name))).holders
        heir = await cell.run(other.lock(cell.name).try_acquire)
        assert heir is not None, "the caller that broke it may have it at once"
        assert heir.fence > broken.fence
        await cell.run(heir.release)
