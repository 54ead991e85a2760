"""Semaphores: as many hold as there are permits, and a permit is never idle while someone waits."""

from __future__ import annotations

import logging

import pytest

from fencelock.testing.conformance.cells import Cell, queued
from fencelock.testing.conformance.waiting import soon, within


async def test_as_many_hold_as_there_are_permits(cell: Cell) -> None:
    cell.needs("supports_sharing")
    client, other = cell.client(), cell.client()
    first, second, third = [
        await cell.run(client.semaphore(cell.name, permits=3).acquire) for _ in range(3)
    ]
    assert await cell.run(other.semaphore(cell.name, permits=3).try_acquire) is None
    waiter = cell.actor().start(other.semaphore(cell.name, permits=3).acquire)
    await queued(cell, client, 1)
    await cell.run(second.release)
    fourth = await within(waiter)
    assert fourth.fence > third.fence > first.fence
    seen = await cell.run(lambda: client.inspect(cell.name))
    assert len(seen.holders) == 3


async def test_several_permits_at_once(cell: Cell) -> None:
    cell.needs("supports_sharing")
    client = cell.client()
    caller = cell.actor()
    two = await caller.do(client.semaphore(cell.name, permits=3, weight=2).acquire)
    assert await cell.run(client.semaphore(cell.name, permits=3, weight=2).try_acquire) is None
    one = await caller.do(client.semaphore(cell.name, permits=3).acquire)
    assert one.fence > two.fence, "one caller may have several leases"
    waiter = cell.actor().start(client.semaphore(cell.name, permits=3, weight=3).acquire)
    await queued(cell, client, 1)
    await cell.run(two.release)
    assert not waiter.done()
    assert await cell.run(client.semaphore(cell.name, permits=3).try_acquire) is None, "in turn"
    await cell.run(one.release)
    assert (await within(waiter)).fence > one.fence


async def test_another_number_of_permits_is_noticed(
    cell: Cell, caplog: pytest.LogCaptureFixture
) -> None:
    cell.needs("supports_sharing")
    client, other = cell.client(), cell.client()
    lease = await cell.run(client.semaphore(cell.name, permits=3).acquire)
    with caplog.at_level(logging.WARNING, "fencelock"):
        waiter = cell.actor().start(other.semaphore(cell.name, permits=5).acquire)
        await soon(lambda: "with 3 permits, this program with 5" in caplog.text, "the warning")
        await cell.run(lease.release)
        await within(waiter)


async def test_what_a_semaphore_must_be_given(cell: Cell) -> None:
    cell.needs("supports_sharing")
    client = cell.client()
    for permits in (0, -1, 2.0, True, "3", 2**31, None):
        with pytest.raises(ValueError, match="permits must be a whole number"):
            client.semaphore(cell.name, permits=permits)
    for weight in (0, -1, 1.5):
        with pytest.raises(ValueError, match="weight must be a whole number"):
            client.semaphore(cell.name, permits=3, weight=weight)
    with pytest.raises(ValueError, match="only 3 permits"):
        client.semaphore(cell.name, permits=3, weight=4)
