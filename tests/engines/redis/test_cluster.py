"""Names spread over the masters of a cluster; what befalls one master does not befall the others."""

import asyncio
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import redis

import fencelock
from fencelock.engines.redis.keys import keys_and_note_of, tag_of
from tests.conformance.cells import OpenCell, act, queued
from tests.engines.redis.server_state import held, lost, tickets
from tests.servers import HOST, ClusterSet, RedisServer
from tests.waiting import soon, within

ODD = [
    "plain",
    "{",
    "}",
    "{}",
    "}{",
    "{a}",
    "{a}b",
    "a}b}",
    "%",
    "%7D",
    "%257D",
    "100%",
    "*",
    "a*b?[c]",
    "with  spaces ",
    "naïve/日本語/🔒",
    "x" * 512,
    "}" * 512,
]


@pytest.fixture
def own_cluster(tmp_path: Path) -> Iterator[ClusterSet]:
    with ClusterSet(tmp_path / "cluster") as cluster:
        for node in cluster.nodes:
            node.config(cluster_require_full_coverage="no")
        yield cluster


def node_of(cluster: ClusterSet, name: str) -> RedisServer:
    """The master that the cluster itself says is responsible for a name."""
    keys = keys_and_note_of(tag_of(name))
    slots = {cluster.nodes[0].execute("CLUSTER", "KEYSLOT", key) for key in keys}
    assert len(slots) == 1, "all in one slot"
    return next(server for server in cluster.nodes if _owns(server, keys[0]))


def _owns(server: RedisServer, key: str) -> bool:
    try:
        server.execute("EXISTS", key)
    except redis.ResponseError:  # MOVED
        return False
    return True


async def test_names_are_told_apart_and_found_again(
    redis_cluster: ClusterSet, open_cell: OpenCell
) -> None:
    cell = open_cell(redis_cluster.url)
    client = cell.client()
    leases: dict[str, Any] = {}
    for name in ODD:
        leases[name] = await cell.run(client.lock(name).acquire)
    places = set()
    for name, lease in leases.items():
        server = node_of(redis_cluster, name)
        assert tickets(server, name) == [lease.id]
        places.add(server.port)
        seen = await cell.run(partial(client.inspect, name))
        assert [one.fence for one in seen.holders] == [lease.fence]
    assert len(places) == 3, "spread over all masters"
    assert set(await cell.run(client.names)) >= set(ODD)
    assert await cell.run(lambda: client.names("[*]")) == ["*"]
    for name, lease in leases.items():
        if name in ODD[::2]:
            assert await cell.run(partial(client.break_lock, name)) is True
        else:
            await cell.run(lease.release)
    assert set(await cell.run(client.names)) & set(ODD) == set()


async def test_a_hand_off_on_every_master(redis_cluster: ClusterSet, open_cell: OpenCell) -> None:
    cell = open_cell(redis_cluster.url)
    one, other = cell.client(), cell.client()
    for number in range(8):
        name = f"{cell.name}:{number}"
        lease = await cell.run(one.lock(name).acquire)
        waiter = cell.actor().start(other.lock(name).acquire)
        await queued(cell, one, 1, name)
        await cell.run(lease.release)
        following = await within(waiter)
        assert following.fence > lease.fence
        await cell.run(following.release)


async def test_a_node_that_is_not_in_a_cluster(redis_url: str, open_cell: OpenCell) -> None:
    cell = open_cell(redis_url.replace("redis:", "redis+cluster:"))
    client = cell.client()
    with pytest.raises(fencelock.EngineError, match="cluster support disabled") as caught:
        await cell.run(lambda: client.lock(cell.name).acquire())
    assert caught.value.outcome == "not applied"


async def test_a_cluster_without_its_url(redis_cluster: ClusterSet, open_cell: OpenCell) -> None:
    cell = open_cell(redis_cluster.nodes[0].url)
    client = cell.client()
    name = next(n for n in map(str, range(99)) if node_of(redis_cluster, n).url != cell.url)
    with pytest.raises(fencelock.EngineError, match=r"use a redis\+cluster:// URL") as caught:
        await cell.run(lambda: client.lock(name).acquire())
    assert caught.value.outcome == "not applied"


@pytest.mark.slow
@pytest.mark.parametrize("fault", [RedisServer.kill, RedisServer.freeze])
async def test_one_master_is_down(
    own_cluster: ClusterSet, open_cell: OpenCell, fault: Callable[[RedisServer], None]
) -> None:
    cell = open_cell(own_cluster.url)
    client = cell.client(ttl=8)
    leases = [await cell.run(client.lock(f"{cell.name}:{number}").acquire) for number in range(12)]
    broken = own_cluster.nodes[0]  # the one that is asked first
    at = {lease: node_of(own_cluster, lease.name) for lease in leases}
    theirs = [lease for lease in leases if at[lease] is broken]
    others = [lease for lease in leases if at[lease] is not broken]
    assert theirs
    assert len({at[lease].port for lease in others}) == 2
    fault(broken)
    for lease in theirs:
        await lost(lease)
    deadlines = [lease._claim.deadline for lease in others]
    await soon(
        lambda: all(
            lease._claim.deadline > before for lease, before in zip(others, deadlines, strict=True)
        ),
        "the others to be renewed after that",
    )
    for lease in others:
        await held(lease)
        await cell.run(lease.release)
    with pytest.raises(fencelock.EngineError):
        await cell.run(lambda: client.lock(theirs[0].name).acquire())


async def test_a_slot_moves(own_cluster: ClusterSet, open_cell: OpenCell) -> None:
    cell = open_cell(own_cluster.url)
    client = cell.client()
    name = cell.name
    lease = await cell.run(lambda: client.lock(name).acquire())
    waiter = cell.actor().start(lambda: client.lock(name).acquire())
    await queued(cell, client, 1)
    source = node_of(own_cluster, name)
    target = next(node for node in own_cluster.nodes if node is not source)
    places = tickets(source, name)

    engine, ticket = client._context.engine, lease._claim.ticket
    assert await act(cell, engine.remember(ticket, "noted", keep=60, timeout=30))
    await asyncio.to_thread(_move, own_cluster, name, source, target)
    assert await act(cell, engine.recall(name, timeout=30)) == "noted"
    await cell.run(lease.renew)
    assert tickets(target, name) == places
    assert (await cell.run(lambda: client.inspect(name))).waiting == 1
    await asyncio.to_thread(_move, own_cluster, name, target, source)
    await cell.run(lease.release)
    assert [(await within(waiter)).id] == places[1:]
    await asyncio.to_thread(_move, own_cluster, name, source, target)
    assert await cell.run(lambda: client.break_lock(name)) is True
    await asyncio.to_thread(_move, own_cluster, name, target, source)
    assert (await cell.run(lambda: client.lock(name).acquire())).abandoned


def _move(cluster: ClusterSet, name: str, source: RedisServer, target: RedisServer) -> None:
    """Move a name's slot, as an operator's tool does."""
    keys = keys_and_note_of(tag_of(name))
    slot = source.execute("CLUSTER", "KEYSLOT", keys[0])
    ids = {server: str(server.execute("CLUSTER", "MYID")) for server in (source, target)}
    target.execute("CLUSTER", "SETSLOT", slot, "IMPORTING", ids[source])
    source.execute("CLUSTER", "SETSLOT", slot, "MIGRATING", ids[target])
    for key in keys:
        source.execute("MIGRATE", HOST, target.port, key, 0, 5000)
    for server in cluster.nodes:
        server.execute("CLUSTER", "SETSLOT", slot, "NODE", ids[target])
    cluster.agree()
