"""Semaphores: as many hold as there are permits, and a permit is never idle while someone waits.

Here are the tests that third parties do not run: they need a second process.
"""

from __future__ import annotations

from fencelock.testing.conformance.test_semaphore import *  # noqa: F403
from tests.child import Child
from tests.conformance.cells import Cell, queued
from tests.waiting import within


async def test_the_permit_of_a_killed_holder_is_free_after_its_ttl(cell: Cell) -> None:
    cell.needs("supports_sharing")
    cell.needs("cross_process")
    client = cell.client()
    await cell.run(client.semaphore(cell.name, permits=2).acquire)
    with Child(cell.face, cell.url) as child:
        child.call("acquire", name=cell.name, ttl=1.0, kind="permits 2")
        waiter = cell.actor().start(client.semaphore(cell.name, permits=2).acquire)
        await queued(cell, client, 1)
        child.kill()
    assert not (await within(waiter)).abandoned
