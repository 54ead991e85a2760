"""Valkey runs the same scripts; the model compares its answers, and here is what a user does."""

from __future__ import annotations

from tests.conformance.cells import OpenCell, queued
from tests.waiting import within


async def test_locks_are_handed_over_shared_and_broken(
    valkey_url: str, open_cell: OpenCell
) -> None:
    cell = open_cell(valkey_url)
    client, other = cell.client(), cell.client()
    lease = await cell.run(client.lock(cell.name).acquire)
    waiter = cell.actor().start(other.lock(cell.name).acquire)
    await queued(cell, client, 1)
    await cell.run(lease.release)
    following = await within(waiter)
    assert following.fence > lease.fence
    await cell.run(following.renew)
    assert await cell.run(lambda: client.break_lock(cell.name))
    readers = [await cell.run(one.rwlock(cell.name).read().acquire) for one in (client, other)]
    assert await cell.run(client.lock(cell.name).try_acquire) is None
    for reader in readers:
        await cell.run(reader.release)
    several = client.lock_all([f"{cell.name}:a", f"{cell.name}:b"])
    leases = await cell.run(several.acquire)
    await cell.run(leases.release)


async def test_what_is_noted_down(valkey_url: str, open_cell: OpenCell) -> None:
    cell = open_cell(valkey_url)
    client = cell.client()

    def work() -> int:
        return 7

    async def async_work() -> int:
        return 7

    done = work if cell.face == "sync" else async_work
    for _ in range(2):
        assert await cell.run(lambda: client.once(cell.name, done)) == 7
