"""How long a caller waits, what it is told then, and that a body never runs unheld.

Here are the tests that third parties do not run: they need a second process.
"""

import pytest

from fencelock.testing.conformance.test_waiting import *  # noqa: F403
from tests.child import Child
from tests.conformance.cells import Cell, queued
from tests.waiting import within


async def test_a_dead_waiter_delays_the_next_by_no_more_than_its_ttl(cell: Cell) -> None:
    cell.needs("leases_expire")
    if not cell.client().traits.cross_process:
        pytest.skip("trait cross_process=False: a process that dies takes this engine along")
    client = cell.client()
    lease = await cell.run(lambda: client.lock(cell.name).acquire())
    with Child(cell.face, cell.url) as ghost:
        ghost.send(
            "acquire", name=cell.name, ttl=3
        )  # alive when the lock is released, on a busy machine, too
        await queued(cell, client, 1)
        # The one behind has a long ttl: it must not take its own renewals to notice.
        heir = cell.actor().start(lambda: client.lock(cell.name, ttl=60).acquire())
        await queued(cell, client, 2)
        ghost.kill()
        await cell.run(lease.release)
        next_lease = await within(heir)
    assert next_lease.fence > lease.fence
    if (
        client.traits.fenced_while_waiting
    ):  # it had its place, and held the lock when that was found empty
        assert next_lease.abandoned
