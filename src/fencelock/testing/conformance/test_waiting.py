"""How long a caller waits, what it is told then, and that a body never runs unheld."""

import asyncio
import time
from typing import Any

import pytest

import fencelock
from fencelock.testing.conformance.cells import Cell, queued
from fencelock.testing.conformance.waiting import soon


async def test_a_timeout_is_a_total_and_says_who_holds(cell: Cell) -> None:
    client = cell.client(label="early bird")
    lease = await cell.run(lambda: client.lock(cell.name).acquire())
    start = time.monotonic()
    with pytest.raises(fencelock.LockTimeout, match="held by early bird") as caught:
        await cell.run(lambda: client.lock(cell.name).acquire(timeout=0.5))
    assert time.monotonic() - start >= 0.5
    assert isinstance(caught.value, TimeoutError)
    assert caught.value.name == cell.name
    assert lease.id not in str(caught.value)
    assert (await cell.run(lambda: client.inspect(cell.name))).waiting == 0, "nothing stays behind"


async def test_timeout_zero_does_not_wait(cell: Cell) -> None:
    client = cell.client()
    await cell.run(lambda: client.lock(cell.name).acquire())
    with pytest.raises(fencelock.LockTimeout, match="is not free: held by"):
        await cell.run(lambda: client.lock(cell.name).acquire(timeout=0))
    assert (await cell.run(lambda: client.inspect(cell.name))).waiting == 0
    free = await cell.run(lambda: client.lock(cell.name + ":free").acquire(timeout=0))
    assert free.state is fencelock.LeaseState.HELD


async def test_without_a_timeout_it_waits(cell: Cell) -> None:
    client = cell.client()
    lease = await cell.run(lambda: client.lock(cell.name).acquire())
    waiter = cell.actor().start(lambda: client.lock(cell.name).acquire(timeout=None))
    await queued(cell, client, 1)
    assert not waiter.done()
    await cell.run(lease.release)
    assert (await waiter).fence > lease.fence


async def test_a_body_never_runs_unheld(cell: Cell) -> None:
    """etcd3gw, etcd3 and aetcd run it all the same."""
    client = cell.client()
    await cell.run(lambda: client.lock(cell.name).acquire())
    bodies = []

    def body(_: Any) -> None:
        bodies.append(1)

    with pytest.raises(fencelock.LockTimeout):
        await cell.run(lambda: with_lock(client.lock(cell.name, timeout=0.6), body))
    assert bodies == []


async def test_a_with_block_holds_and_releases(cell: Cell) -> None:
    client = cell.client()
    lock = client.lock(cell.name)
    seen: list[Any] = []
    for _ in range(2):
        await cell.run(lambda: with_lock(lock, lambda lease: seen.append((lease, lease.state))))
    assert [state for _, state in seen] == [fencelock.LeaseState.HELD] * 2
    assert seen[0][0].fence < seen[1][0].fence
    assert seen[0][0].state is fencelock.LeaseState.RELEASED
    assert not (await cell.run(lambda: client.inspect(cell.name))).holders


async def test_a_body_that_fails_releases_and_keeps_its_error(cell: Cell) -> None:
    client = cell.client()

    def fails(_: Any) -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await cell.run(lambda: with_lock(client.lock(cell.name), fails))
    assert await cell.run(lambda: client.lock(cell.name).try_acquire())


async def test_two_callers_may_share_one_lock_object(cell: Cell) -> None:
    """redis-py's asyncio Lock lets them release each other's hold."""
    lock = cell.client().lock(cell.name)
    inside: list[int] = []
    most: list[int] = []

    def body(lease: Any) -> None:
        inside.append(1)
        most.append(len(inside))
        lease.check()
        inside.pop()

    await asyncio.gather(*(cell.actor().do(lambda: with_lock(lock, body)) for _ in range(8)))
    assert most == [1] * 8


async def test_waiting_tickets_are_renewed(cell: Cell) -> None:
    cell.needs("fenced_while_waiting")
    client = cell.client()
    lease = await cell.run(lambda: client.lock(cell.name, ttl=30).acquire())
    waiter = cell.actor().start(lambda: client.lock(cell.name, ttl=3).acquire())
    await queued(cell, client, 1)
    fence = (await cell.run(lambda: client.inspect(cell.name))).waiters[0].fence
    await asyncio.sleep(4)  # longer than its ttl: time itself is under test
    seen = await cell.run(lambda: client.inspect(cell.name))
    assert [one.fence for one in seen.waiters] == [fence], "it kept its place"
    await cell.run(lease.release)
    assert (await waiter).fence == fence


async def test_try_acquire_never_waits_and_leaves_nothing(cell: Cell) -> None:
    """kazoo leaves an orphan contender that blocks everyone later."""
    client = cell.client()
    lease = await cell.run(lambda: client.lock(cell.name).acquire())
    for _ in range(20):
        assert await cell.run(lambda: client.lock(cell.name).try_acquire()) is None
    assert (await cell.run(lambda: client.inspect(cell.name))).waiting == 0
    await cell.run(lease.release)
    await soon(lambda: cell.run(lambda: client.lock(cell.name).try_acquire()), "the free lock")


async def test_the_decorator_fills_in_the_name(cell: Cell) -> None:
    client = cell.client()
    seen: list[Any] = []

    def build(day: str, times: int = 2, *, lease: Any) -> int:
        seen.append((lease.name, lease.owner.label))
        return times

    async def build_async(day: str, times: int = 2, *, lease: Any) -> int:
        return build(day, times, lease=lease)

    bare = build if cell.face == "sync" else build_async
    locked = client.locked(cell.name + ":{day}", label="builder")(bare)
    assert await cell.run(lambda: locked("monday", times=3)) == 3
    assert await cell.run(lambda: locked(day="monday")) == 2
    assert seen == [(cell.name + ":monday", "builder")] * 2
    with pytest.raises(ValueError, match="no such argument"):
        client.locked("x:{month}")(bare)


def with_lock(lock: Any, body: Any) -> Any:
    """Run a body in the lock's `with` block, whichever it has."""
    if hasattr(lock, "__aenter__"):
        return _with_lock_async(lock, body)
    with lock as lease:
        return body(lease)


async def _with_lock_async(lock: Any, body: Any) -> Any:
    async with lock as lease:
        return body(lease)
