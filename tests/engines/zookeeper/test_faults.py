"""Nodes that are killed and frozen: what goes on, what is lost, and when."""

import time
from pathlib import Path
from typing import Any

import pytest

import fencelock
from tests.conformance.cells import OpenCell
from tests.engines.zookeeper.observing import connected, lost, parked
from tests.engines.zookeeper.soak import soak
from tests.servers_zookeeper import Ensemble
from tests.waiting import eventually, soon, within


@pytest.mark.slow
def test_processes_and_a_node_that_fails(private: Ensemble, tmp_path: Path) -> None:
    """The short version of `python -m tests.engines.zookeeper.soak`."""
    result = soak(private, tmp_path, seconds=3, processes=2)
    print(result)
    result.check()
    assert result.workers == 2


@pytest.mark.slow
@pytest.mark.parametrize(
    ("role", "how", "face"),
    [
        ("leader", "kill", "sync"),
        ("leader", "freeze", "async"),
        ("follower", "kill", "async"),
        ("follower", "freeze", "sync"),
    ],
    indirect=["face"],
)
async def test_a_lease_survives_a_node(
    private: Ensemble, open_cell: OpenCell, role: str, how: str
) -> None:
    node = getattr(private, role)()
    # So the client is more likely to connect to that node.
    cell = open_cell(f"zookeeper://{node.address},{private.addresses}?session=90")
    client, other = cell.client(), cell.client()
    lease = await cell.run(lambda: client.lock(cell.name, ttl=80).acquire())
    waiter = cell.actor().start(lambda: other.lock(cell.name, ttl=80).acquire())
    await parked(other)
    getattr(node, how)()
    actor = cell.actor()

    async def renewed() -> bool:
        try:
            await actor.do(lease.renew)
        except fencelock.EngineError:
            return False
        return True

    await soon(renewed, "a renewal without that node")
    assert lease.state is fencelock.LeaseState.HELD
    await cell.run(lease.release)
    following = await within(waiter)
    assert following.fence > lease.fence
    assert not following.abandoned


@pytest.mark.slow
async def test_two_nodes_down_and_up_again(private: Ensemble, open_cell: OpenCell) -> None:
    cell = open_cell(private.url)
    client = cell.client()
    await connected(cell, client)
    lease = await cell.run(lambda: client.lock(cell.name, ttl=6).acquire())
    down = [private.leader(), private.follower()]
    for node in down:
        node.kill()
    await soon(lambda: lease.state is fencelock.LeaseState.SUSPENDED, "the suspension")
    lease.check()
    begun = time.monotonic()
    with pytest.raises(fencelock.EngineError) as caught:
        await cell.run(lambda: client.lock(f"{cell.name}:other").acquire())
    assert time.monotonic() - begun < 60, "reported, not hung"
    assert caught.value.name == f"{cell.name}:other"
    await lost(lease)
    for node in down:
        node.launch()
    private.wait()

    async def goes_on() -> Any:
        try:
            return await cell.run(lambda: client.lock(cell.name, ttl=6).acquire())
        except fencelock.EngineError:
            return None

    assert (await soon(goes_on, "a lease")).fence > lease.fence


@pytest.mark.slow
@pytest.mark.parametrize("face", ["sync"])  # fences come from the servers, for either face
async def test_fences_grow_across_restarts_and_leaders(
    private: Ensemble, open_cell: OpenCell
) -> None:
    fences: list[int] = []
    leaders: set[int] = set()

    async def turn() -> None:
        cell = open_cell(private.url)
        client = cell.client()
        lease = await cell.run(lambda: client.lock("fenced").acquire(timeout=30))
        fences.append(lease.fence)
        await cell.run(lease.release)
        await cell.run(client.close)

    await turn()
    for _ in range(2):  # another leader each time
        leader = private.leader()
        leaders.add(leader.number)
        leader.kill()
        eventually(lambda: private.leader(), "another leader")
        await turn()
        leader.start()
        private.wait()
        await turn()
    for node in private.nodes:  # all at once, like a power cut
        node.kill()
    for node in private.nodes:
        node.launch()
    private.wait()
    await turn()
    assert len(leaders) == 2
    assert fences == sorted(set(fences))


async def test_a_frozen_node_is_left_even_without_requests(
    private: Ensemble, open_cell: OpenCell
) -> None:
    leader = private.leader()  # it stays, for an election takes its time
    followers = [node.address for node in private.nodes if node is not leader]
    cell = open_cell(f"zookeeper://{','.join(followers)}")
    client = cell.client()
    await connected(cell, client)
    connection = client._context.engine._transport._connection
    here = connection.server
    (node,) = (node for node in private.nodes if node.port == here[1])
    session = connection.session
    node.freeze()
    await soon(lambda: connection.server not in (None, here), "another node")
    assert connection.session == session, "the session goes on"
    node.thaw()
