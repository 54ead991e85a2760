"""Holders that die or are stopped, engines that go away: what is lost, who is told, and when.

Here are the tests that third parties do not run: they need a second process.
"""

import asyncio

import pytest

import fencelock
from fencelock.testing.conformance.test_loss import *  # noqa: F403
from fencelock.testing.conformance.test_loss import TTL
from tests.child import Child
from tests.conformance.cells import Cell, queued
from tests.waiting import soon, within


@pytest.fixture
def shared(cell: Cell) -> None:
    if not cell.client().traits.cross_process:
        pytest.skip("trait cross_process=False: a child process can't meet this engine")


@pytest.mark.usefixtures("shared")
async def test_a_killed_holder_is_followed_within_its_ttl(cell: Cell) -> None:
    cell.needs("leases_expire")
    client = cell.client()
    with Child(cell.face, cell.url) as holder:
        fence = holder.call("acquire", name=cell.name, ttl=TTL)["fence"]
        heir = cell.actor().start(lambda: client.lock(cell.name, ttl=60).acquire())
        await queued(cell, client, 1)
        holder.kill()
        lease = await asyncio.wait_for(heir, TTL + 5)
        seen = (await cell.run(lambda: client.inspect(cell.name))).holders[0]
    assert lease.fence > fence
    assert lease.abandoned, "the one before did not release"
    assert lease.state is fencelock.LeaseState.HELD
    assert seen.fence == lease.fence
    await cell.run(lease.release)
    clean = await cell.run(lambda: client.lock(cell.name).acquire())
    assert not clean.abandoned


@pytest.mark.usefixtures("shared")
async def test_a_stopped_holder_learns_of_its_loss_at_once(cell: Cell) -> None:
    cell.needs("leases_expire")
    client = cell.client()
    with Child(cell.face, cell.url) as holder:
        fence = holder.call("acquire", name=cell.name, ttl=TTL)["fence"]
        heir = cell.actor().start(lambda: client.lock(cell.name, ttl=60).acquire())
        await queued(cell, client, 1)
        holder.stop()
        try:
            lease = await within(heir)
            assert lease.fence > fence
            assert lease.abandoned
        finally:
            holder.go_on()
        refused = holder.call("check")
        assert refused["error"] == "LeaseLost"
        assert "don't write" in refused["text"]
        facts = holder.call("facts")
        assert (facts["state"], facts["lost"]) == ("lost", True)
        await soon(lambda: holder.call("facts")["told"] == 1, "the callback")  # the keeper calls it
        assert holder.call("release")["error"] == "LeaseLost"
        assert lease.state is fencelock.LeaseState.HELD
        await cell.run(lease.renew)  # it was not touched
        seen = await cell.run(lambda: client.inspect(cell.name))
        assert [one.fence for one in seen.holders] == [lease.fence]


@pytest.mark.usefixtures("shared")
async def test_a_waiter_that_was_stopped_for_long_joins_again(cell: Cell) -> None:
    cell.needs("leases_expire")
    client = cell.client()
    lease = await cell.run(lambda: client.lock(cell.name).acquire())
    with Child(cell.face, cell.url) as waiter:
        assert waiter.call("wait", name=cell.name, ttl=TTL) == "waits"
        waiter.stop()
        try:
            behind = cell.actor().start(lambda: client.lock(cell.name).acquire())
            await queued(cell, client, 2)
            await cell.run(lease.release)
            second = await within(behind)
        finally:
            waiter.go_on()
        await queued(cell, client, 1)
        await cell.run(second.release)
        assert waiter.receive()["fence"] > second.fence
