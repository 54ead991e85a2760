"""The same caller twice, re-entry, hand-over to another caller, and what a fork does."""

import pytest

import fencelock
from fencelock.testing.conformance.cells import Cell, lasting, queued
from fencelock.testing.conformance.test_waiting import with_lock
from fencelock.testing.conformance.waiting import PATIENCE, soon, within


async def test_the_same_caller_twice_would_deadlock(cell: Cell) -> None:
    client = cell.client()
    one, other = cell.actor(), cell.actor()
    lease = await one.do(lambda: client.lock(cell.name).acquire())
    with pytest.raises(fencelock.WouldDeadlock, match="reentrant=True") as caught:
        await one.do(lambda: client.lock(cell.name).acquire())
    assert caught.value.name == cell.name
    assert await one.do(lambda: client.lock(cell.name).try_acquire()) is None
    with pytest.raises(fencelock.LockTimeout):  # another caller just waits
        await other.do(lambda: client.lock(cell.name).acquire(timeout=0.6))
    await one.do(lease.release)
    again = await one.do(lambda: client.lock(cell.name).acquire())
    await one.do(again.release)


async def test_a_lost_lease_does_not_count_as_held(cell: Cell) -> None:
    client = cell.client()
    one = cell.actor()
    lease = await one.do(lambda: client.lock(cell.name, **lasting(client, 0.3)).acquire())
    await cell.run(lambda: client.break_lock(cell.name))
    await one.do(lambda: lease.lost.wait(PATIENCE))
    assert await one.do(lambda: client.lock(cell.name).acquire(timeout=5))


async def test_who_breaks_its_own_lock_knows_it_at_once(cell: Cell) -> None:
    client = cell.client()
    one = cell.actor()
    lease = await one.do(lambda: client.lock(cell.name).acquire())
    assert not lease.lost
    assert await one.do(lambda: client.break_lock(cell.name))
    assert lease.lost, "long before its next renewal"
    again = await one.do(lambda: client.lock(cell.name).acquire(timeout=30))
    assert again.fence > lease.fence
    assert not again.lost


async def test_a_reentrant_lock_keeps_its_fence(cell: Cell) -> None:
    client = cell.client()
    lock = client.lock(cell.name, reentrant=True)
    one = cell.actor()
    outer = await one.do(lock.acquire)
    inner = await one.do(lock.acquire)
    third = await one.do(lock.try_acquire)
    assert outer.fence == inner.fence == third.fence
    for lease in (third, inner):
        await one.do(lease.release)
        assert outer.state is fencelock.LeaseState.HELD
    assert await cell.run(lambda: client.lock(cell.name).try_acquire()) is None
    await one.do(outer.release)
    assert await cell.run(lambda: client.lock(cell.name).try_acquire())


async def test_reentry_is_for_the_same_caller_only(cell: Cell) -> None:
    client = cell.client()
    lock = client.lock(cell.name, reentrant=True)
    await cell.actor().do(lock.acquire)
    assert await cell.actor().do(lock.try_acquire) is None


async def test_nested_with_blocks_of_a_reentrant_lock(cell: Cell) -> None:
    lock = cell.client().lock(cell.name, reentrant=True)
    fences: list[int] = []

    def nested() -> None:
        with lock as outer, lock as inner:
            fences.extend((outer.fence, inner.fence))
        assert outer.state is fencelock.LeaseState.RELEASED

    async def nested_async() -> None:
        async with lock as outer, lock as inner:
            fences.extend((outer.fence, inner.fence))
        assert outer.state is fencelock.LeaseState.RELEASED

    await cell.run(nested if cell.face == "sync" else nested_async)
    assert fences[0] == fences[1]


async def test_a_lease_may_be_released_by_another_caller(cell: Cell) -> None:
    client = cell.client()
    one, other = cell.actor(), cell.actor()
    lease = await one.do(lambda: client.lock(cell.name).acquire())
    await other.do(lease.release)
    again = await one.do(lambda: client.lock(cell.name).acquire())
    assert again.fence > lease.fence


async def test_releasing_twice_is_harmless(cell: Cell) -> None:
    client = cell.client()
    lease = await cell.run(lambda: client.lock(cell.name).acquire())
    await cell.run(lease.release)
    successor = await cell.run(lambda: client.lock(cell.name).acquire())
    await cell.run(lease.release)
    assert successor.state is fencelock.LeaseState.HELD
    await cell.run(successor.renew)
    with pytest.raises(fencelock.LeaseLost, match="already released"):
        lease.check()


async def test_a_release_inside_the_body_is_the_release(cell: Cell) -> None:
    client = cell.client()
    if cell.face == "sync":
        await cell.run(lambda: with_lock(client.lock(cell.name), lambda lease: lease.release()))
    else:

        async def body() -> None:
            async with client.lock(cell.name) as lease:
                await lease.release()

        await cell.run(body)
    assert await cell.run(lambda: client.lock(cell.name).try_acquire())


async def test_closing_a_client_gives_back_what_it_holds(cell: Cell) -> None:
    client, other = cell.client(), cell.client()
    lease = await cell.run(lambda: client.lock(cell.name).acquire())
    await cell.run(client.close)
    assert lease.state is fencelock.LeaseState.LOST
    assert await cell.run(lambda: other.lock(cell.name).try_acquire())
    with pytest.raises(fencelock.FencelockError, match="is closed"):
        await cell.run(lambda: client.lock(cell.name + ":other").acquire())


async def test_closing_a_client_ends_its_waiting(cell: Cell) -> None:
    client, other = cell.client(), cell.client()
    await cell.run(lambda: other.lock(cell.name).acquire())
    waiter = cell.actor().start(client.lock(cell.name, **lasting(client, 1)).acquire)
    await queued(cell, other, 1)
    await cell.run(client.close)
    with pytest.raises(fencelock.FencelockError, match="closed"):
        await within(waiter)

    async def nobody_waits() -> bool:
        return not (await cell.run(lambda: other.inspect(cell.name))).waiting

    await soon(nobody_waits, "its ticket to be gone")  # with its ttl, if it was just being renewed
