"""Nodes are killed, frozen, emptied and restarted: with a majority it goes on, without one it says so."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any

import pytest

import fencelock
from fencelock.engines.redlock import bidding, readmission
from fencelock.engines.redlock.scripts import keys_of
from fencelock.io import clock
from tests.conformance.cells import Cell, OpenCell
from tests.engines.redlock.conftest import StartNodes
from tests.engines.redlock.node_state import (
    connected,
    counted,
    fence,
    gone,
    holder,
    holders,
    nothing_left,
    renewed,
)
from tests.servers import RedisServer
from tests.servers_redlock import RedlockSet
from tests.waiting import soon

DURABLE = {"appendonly": "yes", "appendfsync": "always"}


def kill(node: RedisServer) -> None:
    node.kill()


def freeze(node: RedisServer) -> None:
    node.freeze()


def wipe(node: RedisServer) -> None:
    node.execute("FLUSHALL")


def restart(node: RedisServer) -> None:
    node.restart(keep_data=False)


async def turn(cell: Cell, client: Any, **options: Any) -> int:
    """Acquire and release once."""
    lease = await cell.run(lambda: client.lock(cell.name, **options).acquire(timeout=10))
    await cell.run(lease.release)
    return int(lease.fence)


@pytest.mark.parametrize("harm", [kill, freeze])
async def test_a_lease_that_silent_nodes_may_have_is_not_lost(
    nodes: RedlockSet, open_cell: OpenCell, harm: Callable[[RedisServer], None]
) -> None:
    """Two nodes have forgotten it, and two can't be asked: with these it would be a majority."""
    cell = open_cell(nodes.url)
    client = cell.client()
    lease = await cell.run(lambda: client.lock(cell.name, ttl=600).acquire())
    for node in nodes.nodes[:2]:
        wipe(node)
    for node in nodes.nodes[2:4]:
        harm(node)
    with pytest.raises(fencelock.QuorumLost):
        await cell.run(lease.renew)
    lease.check()
    with pytest.raises(fencelock.QuorumLost) as caught:
        await cell.run(lease.release)
    assert caught.value.outcome == "unknown"


@pytest.mark.parametrize("harm", [kill, freeze, wipe, restart])
@pytest.mark.parametrize("count", [1, 2])
async def test_a_minority_is_not_missed(
    nodes: RedlockSet, open_cell: OpenCell, harm: Callable[[RedisServer], None], count: int
) -> None:
    cell = open_cell(nodes.url)
    client = cell.client()
    held = await cell.run(lambda: client.lock(f"{cell.name}:held", ttl=30).acquire())
    fences = [await turn(cell, client)]
    for node in nodes.nodes[:count]:
        harm(node)
    fences += [await turn(cell, client) for _ in range(5)]
    assert fences == sorted(set(fences))
    await cell.run(held.renew)
    held.check()
    await cell.run(held.release)
    fresh = cell.client()  # which meets them as they are now
    assert await turn(cell, fresh) > fences[-1]
    await nothing_left(nodes.nodes[count:], cell.name)


@pytest.mark.parametrize("harm", [kill, freeze])
async def test_without_a_majority_the_error_names_the_missing_nodes(
    nodes: RedlockSet, open_cell: OpenCell, harm: Callable[[RedisServer], None]
) -> None:
    cell = open_cell(nodes.url)
    client = cell.client()
    await connected(cell, client)
    for node in nodes.nodes[:3]:
        harm(node)
    for act in (
        lambda: client.lock(cell.name).acquire(timeout=30),
        lambda: client.lock(cell.name).try_acquire(),
        lambda: client.inspect(cell.name),
        lambda: client.names("*"),
        lambda: cell.client().lock(cell.name).try_acquire(),
    ):
        start = clock.now()
        with pytest.raises(fencelock.QuorumLost) as caught:
            await cell.run(act)
        assert clock.now() - start < 15, "at once, and not when the timeout is over"
        _, too_few, reasons = str(caught.value).partition(
            "too few of 5 nodes for a majority of 3: "
        )
        assert too_few
        assert [node.address in reasons for node in nodes.nodes] == [True] * 3 + [False] * 2


async def test_with_a_majority_again_it_goes_on(nodes: RedlockSet, open_cell: OpenCell) -> None:
    cell = open_cell(nodes.url + "?node_timeout=2")
    client = cell.client()
    before = await turn(cell, client)
    for node in nodes.nodes[:3]:
        node.freeze()
    with pytest.raises(fencelock.QuorumLost):
        await cell.run(lambda: client.lock(cell.name).acquire(timeout=1))
    nodes.nodes[0].thaw()
    assert await turn(cell, client) > before
    for node in nodes.nodes[1:3]:
        node.thaw()
    await nothing_left(nodes.nodes, cell.name)  # not even what they read only now


async def test_a_frozen_node_is_asked_once_then_avoided_then_back(
    nodes: RedlockSet, open_cell: OpenCell
) -> None:
    cell = open_cell(nodes.url + "?node_timeout=0.5")
    client = cell.client()
    frozen = nodes.nodes[2]
    await connected(cell, client)
    health = client._context.engine._nodes.all[2]
    frozen.freeze()
    await soon(lambda: _noticed(cell, client, health), "the node to be avoided")
    start = clock.now()
    for _ in range(6):
        await cell.run(lambda: client.inspect(cell.name))  # which asks all
    assert clock.now() - start < 6 * 0.5, "nobody waits for it again"
    frozen.thaw()
    await soon(lambda: _noticed(cell, client, health, back=True), "the node to come back", 40)
    lease = await cell.run(lambda: client.lock(cell.name).acquire())
    await soon(lambda: holder(frozen, cell.name) == lease.id, "its vote")
    await cell.run(lease.release)


async def _noticed(cell: Cell, client: Any, health: Any, back: bool = False) -> bool:
    await cell.run(lambda: client.inspect(cell.name))
    return bool((health.failure is None) == back)


async def test_nobody_waits_for_a_slow_node(nodes: RedlockSet, open_cell: OpenCell) -> None:
    """A majority is enough to acquire and to release; the rest hears of it in its own time."""
    cell = open_cell(nodes.url + "?node_timeout=20")
    client = cell.client()
    await connected(cell, client)
    for node in nodes.nodes[:2]:
        node.freeze()
    start = clock.now()
    for _ in range(3):
        await turn(cell, client)
    assert clock.now() - start < 15, "less than the node timeout"
    for node in nodes.nodes[:2]:
        node.thaw()
    await nothing_left(nodes.nodes, cell.name)


async def test_a_release_reaches_a_node_that_was_away(
    nodes: RedlockSet, open_cell: OpenCell
) -> None:
    cell = open_cell(nodes.url)
    client = cell.client()
    lease = await cell.run(lambda: client.lock(cell.name, ttl=600).acquire())
    away = nodes.nodes[1]
    await soon(lambda: holders(nodes.nodes, cell.name) == [lease.id] * 5, "all votes")
    away.freeze()
    with pytest.raises(TimeoutError):  # so that the line to it is given up
        await cell.actor().do(lambda: client.lock(cell.name).acquire(timeout=1))
    await cell.run(lease.release)
    away.thaw()
    await nothing_left(nodes.nodes, cell.name)


async def test_a_majority_that_forgets_loses_the_lease(
    nodes: RedlockSet, open_cell: OpenCell
) -> None:
    cell = open_cell(nodes.url)
    client = cell.client()
    lease = await cell.run(lambda: client.lock(cell.name, ttl=3).acquire())
    for node in nodes.nodes[:3]:
        node.execute("FLUSHALL")
    await gone(lease)
    with pytest.raises(fencelock.LeaseLost):
        lease.check()

    async def again() -> Any:
        with suppress(fencelock.QuorumLost):
            return await cell.run(lambda: client.lock(cell.name, ttl=3).acquire(timeout=1))

    following = await soon(again, "the nodes to vote again")
    assert following.fence > lease.fence


async def test_nobody_gets_in_beside_a_holder_when_nodes_forget(
    nodes: RedlockSet, open_cell: OpenCell
) -> None:
    """Three of five hold it; two of these forget. With the other two they would be a majority."""
    cell = open_cell(nodes.url)
    client, other = cell.client(), cell.client()
    await connected(cell, other)
    for node in nodes.nodes[3:]:
        node.freeze()
    lease = await cell.run(lambda: client.lock(cell.name, ttl=20).acquire())
    for node in nodes.nodes[3:]:
        node.thaw()
    await nothing_left(nodes.nodes[3:], cell.name)
    for node in nodes.nodes[:2]:
        node.restart(keep_data=False)
    for _ in range(3):
        with suppress(fencelock.QuorumLost):
            assert await cell.run(lambda: other.lock(cell.name).try_acquire()) is None
    lease.check()


async def test_a_rolling_restart_under_a_lease(
    start_nodes: StartNodes, open_cell: OpenCell
) -> None:
    nodes = start_nodes(**DURABLE)
    cell = open_cell(nodes.url)
    client = cell.client()
    lease = await cell.run(lambda: client.lock(cell.name, ttl=30).acquire())
    for node in nodes.nodes:
        node.stop()
        node.start()
        await soon(partial(_has, node, lease), "its vote")
        await renewed(cell, lease)
    assert {fence(node, cell.name) for node in nodes.nodes} == {lease.fence}
    await cell.run(lease.release)
    await nothing_left(nodes.nodes, cell.name)


def _has(node: RedisServer, lease: Any) -> bool:
    return bool(holder(node, lease.name) == lease.id)


async def test_a_node_that_missed_a_term_learns_its_number(
    nodes: RedlockSet, open_cell: OpenCell
) -> None:
    """A proclamation is the first that the node hears of the leader: it must not be a new term there."""
    cell = open_cell(nodes.url)
    client = cell.client()
    election = client.election(cell.name, "one")
    term = await cell.run(election.campaign)
    nodes.nodes[0].execute("DEL", *keys_of(cell.name)[1:])
    await cell.run(lambda: election.proclaim("two"))
    await soon(lambda: all(_has(node, term) for node in nodes.nodes), "all to vote")
    assert {fence(node, cell.name) for node in nodes.nodes} == {term.fence}
    leader = await cell.run(election.leader)
    assert (leader.value, leader.term) == ("two", term.fence)
    seen = await cell.run(lambda: client.inspect(cell.name))
    assert [one.fence for one in seen.holders] == [term.fence]


@pytest.mark.slow
@pytest.mark.parametrize(
    "face", ["async"], indirect=True
)  # it takes long, and the nodes do the work
async def test_a_rolling_restart_of_nodes_that_forget(
    nodes: RedlockSet, open_cell: OpenCell
) -> None:
    """They vote again, but not for a lease from before: with the third one it is lost, and told so."""
    cell = open_cell(nodes.url)
    client = cell.client()
    lease = await cell.run(lambda: client.lock(cell.name, ttl=3).acquire())
    for number, node in enumerate(nodes.nodes[:3]):
        lease.check()
        node.restart(keep_data=False)
        if number < 2:
            await soon(partial(_has, node, lease), "a vote")
    await gone(lease)

    async def again() -> Any:
        with suppress(fencelock.QuorumLost):
            return await cell.run(lambda: client.lock(cell.name, ttl=3).acquire(timeout=1))

    assert (await soon(again, "the nodes to vote")).fence > lease.fence


async def test_nodes_that_keep_their_data_vote_at_once(
    start_nodes: StartNodes, open_cell: OpenCell
) -> None:
    nodes = start_nodes(**DURABLE)
    cell = open_cell(nodes.url)
    client = cell.client()
    lease = await cell.run(lambda: client.lock(cell.name, ttl=600).acquire())
    for node in nodes.nodes:
        node.kill()
        node.start()
    await renewed(cell, lease)
    assert await cell.run(lambda: cell.client().lock(cell.name).try_acquire()) is None
    await cell.run(lease.release)
    assert await turn(cell, cell.client(), ttl=600) > lease.fence


async def test_no_fence_is_given_twice_when_nodes_forget(
    nodes: RedlockSet, open_cell: OpenCell, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first lease is known to nodes 0, 1 and 2; then 0 and 1 forget, and vote with 3 for the next."""
    for module in (bidding, readmission):
        monkeypatch.setattr(module, "hint", lambda: 0)  # not even the clock is needed
    cell = open_cell(nodes.url)
    client = cell.client()
    await turn(cell, client, ttl=0.5)

    def counted(present: list[RedisServer]) -> int:
        """What it would be if every node just counted."""
        return max(int(node.execute("INCR", "counter")) for node in present)

    first, last = nodes.nodes[:3], [nodes.nodes[0], nodes.nodes[1], nodes.nodes[3]]
    with frozen(nodes.nodes[3:]):
        lease = await cell.run(lambda: client.lock(cell.name, ttl=0.5).acquire())
        await cell.run(lease.release)
        number = counted(first)
    for node in nodes.nodes[:2]:
        node.restart(keep_data=False)
    with frozen([nodes.nodes[2], nodes.nodes[4]]):
        assert counted(last) == number, "the same twice"
        with pytest.raises(fencelock.QuorumLost, match="does not vote until"):
            await turn(cell, client, ttl=0.5)
    await soon(partial(_all_vote, cell, client, nodes), "everyone to vote again")
    with frozen([nodes.nodes[2], nodes.nodes[4]]):
        assert await turn(cell, client, ttl=0.5) > lease.fence


@contextmanager
def frozen(some: list[RedisServer]) -> Iterator[None]:
    for node in some:
        node.freeze()
    yield
    for node in some:
        node.thaw()


async def _all_vote(cell: Cell, client: Any, nodes: RedlockSet) -> bool:
    name = f"{cell.name}:vote"
    with suppress(
        fencelock.QuorumLost, fencelock.LeaseLost
    ):  # the ttl is short, and machines are slow
        lease = await cell.run(lambda: client.lock(name, ttl=0.5).acquire())
        votes = holders(nodes.nodes, name)
        await cell.run(lease.release)
        return votes == [lease.id] * 5
    return False


async def test_a_new_set_begins_though_one_is_slow(nodes: RedlockSet, open_cell: OpenCell) -> None:
    cell = open_cell(nodes.url)
    client = cell.client()
    nodes.nodes[4].freeze()
    first = cell.actor().start(lambda: client.lock(cell.name).acquire())
    health = client._context.engine._nodes.all[4]
    await soon(lambda: health.failure, "the node to be missed")
    nodes.nodes[4].thaw()
    await cell.run((await first).release)


async def test_one_request_to_every_node(nodes: RedlockSet, open_cell: OpenCell) -> None:
    cell = open_cell(nodes.url)
    client = cell.client()
    await connected(cell, client)
    with counted(nodes.nodes) as seen:
        lease = await cell.run(lambda: client.lock(cell.name).acquire())
        await soon(lambda: all(holders(nodes.nodes, cell.name)), "all votes")
        await cell.run(lease.release)
        await nothing_left(nodes.nodes, cell.name)
    assert [counts["evalsha"] for counts in seen] == [2] * 5, "one to acquire, one to release"
