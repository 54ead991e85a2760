"""Leader election: one leader a term, terms that grow, and everybody hears of a change.

Here are the tests that third parties do not run: they need a second process.
"""

from __future__ import annotations

from fencelock.testing.conformance.test_election import *  # noqa: F403
from fencelock.testing.conformance.test_election import observing
from tests.child import Child
from tests.conformance.cells import Cell, queued
from tests.waiting import soon, within


async def test_a_leader_that_is_stopped_is_replaced(cell: Cell) -> None:
    cell.needs("leases_expire")
    cell.needs("cross_process")
    client = cell.client()
    with Child(cell.face, cell.url) as old:
        async with observing(cell, client.election(cell.name, ttl=60)) as observer:
            before = old.call("campaign", name=cell.name, value="old", ttl=2.0)["fence"]
            await soon(lambda: observer.seen and observer.seen[-1], "the first leader")
            heir = client.election(cell.name, "new")
            campaign = cell.actor().start(heir.campaign)
            await queued(cell, client, 1)
            old.stop()
            term = await within(campaign)
            assert term.fence > before
            await soon(
                lambda: observer.seen[-1] and observer.seen[-1].value == "new", "the new one"
            )
        old.go_on()
        assert old.call("check")["error"] == "LeaseLost"
        term.check()
