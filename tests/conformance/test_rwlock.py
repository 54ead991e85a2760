"""Read-write locks: readers share, writers hold alone, nobody starves.

Here are the tests that third parties do not run: they need a second process.
"""

from __future__ import annotations

from fencelock.testing.conformance.test_rwlock import *  # noqa: F403
from tests.child import Child
from tests.conformance.cells import Cell, queued
from tests.waiting import within


async def test_a_killed_reader_is_forgotten_after_its_ttl(cell: Cell) -> None:
    cell.needs("supports_sharing")
    cell.needs("cross_process")
    client = cell.client()
    living = await cell.run(client.rwlock(cell.name).read().acquire)
    with Child(cell.face, cell.url) as reader:
        reader.call("acquire", name=cell.name, ttl=1.0, kind="read")
        writer = cell.actor().start(client.lock(cell.name).acquire)
        await queued(cell, client, 1)
        reader.kill()
    await cell.run(living.release)
    lease = await within(writer)
    assert not lease.abandoned, "a reader leaves nothing half done"
