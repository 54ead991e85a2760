"""Read-write locks: readers share, writers hold alone, nobody starves."""

from __future__ import annotations

import pytest

import fencelock
from fencelock.testing.conformance.cells import Cell, queued
from fencelock.testing.conformance.waiting import within


async def test_an_engine_without_sharing_says_so_at_once(cell: Cell) -> None:
    client = cell.client()
    if client.traits.supports_sharing:
        assert client.rwlock(cell.name).name == cell.name
        return
    with pytest.raises(fencelock.Unsupported, match="mutex only"):
        client.rwlock(cell.name)
    with pytest.raises(fencelock.Unsupported, match="mutex only"):
        client.semaphore(cell.name, 3)


async def test_readers_share_and_a_writer_waits_for_them(cell: Cell) -> None:
    cell.needs("supports_sharing")
    client, other = cell.client(), cell.client()
    rwlock = client.rwlock(cell.name)
    readers = [await cell.run(rwlock.read().acquire) for _ in range(3)]
    assert await cell.run(other.rwlock(cell.name).write().try_acquire) is None
    writer = cell.actor().start(other.rwlock(cell.name).write().acquire)
    await queued(cell, client, 1)
    late = cell.actor().start(rwlock.read().acquire)
    await queued(cell, client, 2)
    for reader in readers:
        assert not writer.done()
        await cell.run(reader.release)
    lease = await within(writer)
    assert not late.done(), "the writer holds alone"
    assert lease.fence > max(reader.fence for reader in readers)
    await cell.run(lease.release)
    assert (await within(late)).fence > lease.fence


async def test_a_mutex_is_a_writer(cell: Cell) -> None:
    cell.needs("supports_sharing")
    client = cell.client()
    reader = await cell.run(client.rwlock(cell.name).read().acquire)
    assert await cell.run(client.lock(cell.name).try_acquire) is None
    await cell.run(reader.release)
    mutex = await cell.run(client.lock(cell.name).try_acquire)
    assert mutex is not None
    assert await cell.run(client.rwlock(cell.name).read().try_acquire) is None


async def test_a_writer_turns_reader(cell: Cell) -> None:
    cell.needs("supports_sharing")
    client, other = cell.client(), cell.client()
    lease = await cell.run(client.rwlock(cell.name).write().acquire)
    reader = cell.actor().start(other.rwlock(cell.name).read().acquire)
    await queued(cell, client, 1)
    await cell.run(lease.downgrade)
    following = await within(reader)
    lease.check()
    await cell.run(lease.renew)
    with pytest.raises(ValueError, match="shares it already"):
        await cell.run(lease.downgrade)
    assert await cell.run(other.rwlock(cell.name).write().try_acquire) is None
    await cell.run(lease.release)
    await cell.run(following.release)
    writer = await cell.run(other.rwlock(cell.name).write().try_acquire)
    assert writer.fence > following.fence > lease.fence


async def test_a_reader_can_not_turn_writer(cell: Cell) -> None:
    cell.needs("supports_sharing")
    client = cell.client()
    rwlock = client.rwlock(cell.name)
    caller = cell.actor()
    lease = await caller.do(rwlock.read().acquire)
    with pytest.raises(fencelock.WouldDeadlock, match="can't become a writer"):
        await caller.do(rwlock.write().acquire)
    with pytest.raises(fencelock.WouldDeadlock, match="already held"):
        await caller.do(rwlock.read().acquire)
    assert await caller.do(rwlock.write().try_acquire) is None, "it does not wait"
    nested = await caller.do(client.rwlock(cell.name, reentrant=True).read().acquire)
    assert nested.fence == lease.fence
