"""Requests are carried out and their replies lost, at some nodes: nothing is done twice or left behind."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

import fencelock
from fencelock.engines.redlock.scripts import keys_of
from tests.conformance.cells import Cell, OpenCell, queued
from tests.engines.redlock.node_state import (
    connected,
    fence,
    holder,
    nothing_left,
    renewed,
    waiters,
)
from tests.proxy import TcpProxy
from tests.servers import HOST
from tests.servers_redlock import RedlockSet
from tests.waiting import soon, within


@pytest.fixture
def proxies(nodes: RedlockSet, tcp_proxy: Callable[[int], TcpProxy]) -> list[TcpProxy]:
    return [tcp_proxy(node.port) for node in nodes.nodes]


@pytest.fixture
def cell(proxies: list[TcpProxy], open_cell: OpenCell) -> Cell:
    nodes = ",".join(f"{HOST}:{proxy.port}" for proxy in proxies)
    # A node that is only slow must not be given up: its next connection would use up the cut.
    return open_cell(f"redlock://{nodes}?node_timeout=2")


async def held(cell: Cell, client: Any) -> Any:
    """A lease of which all nodes know: no answer about it is still to come and uses up a cut."""
    lease = await cell.run(lambda: client.lock(cell.name, ttl=600).acquire())
    await cell.run(lambda: client.inspect(cell.name))
    return lease


some = pytest.mark.parametrize("count", [2, 3])


@some
async def test_grant(cell: Cell, nodes: RedlockSet, proxies: list[TcpProxy], count: int) -> None:
    """With a minority cut off it is won by the others; with a majority it is asked again, by its id."""
    client = cell.client()
    await connected(cell, client)
    cuts = [proxy.cut_after_request() for proxy in proxies[:count]]
    lease = await cell.run(lambda: client.lock(cell.name, ttl=600).acquire())
    for cut in cuts:
        await soon(cut.is_set, "the cut")
    await soon(
        lambda: all(holder(node, cell.name) == lease.id for node in nodes.nodes[count:]),
        "the votes of the others",
    )
    known = [fence(node, cell.name) for node in nodes.nodes if holder(node, cell.name) == lease.id]
    assert known.count(lease.fence) >= 3
    await renewed(cell, lease)
    await cell.run(lease.release)
    await nothing_left(nodes.nodes, cell.name)


@some
async def test_attempt(cell: Cell, nodes: RedlockSet, proxies: list[TcpProxy], count: int) -> None:
    client = cell.client()
    await connected(cell, client)
    for proxy in proxies[:count]:
        proxy.cut_after_request()
    lease = await cell.run(lambda: client.lock(cell.name, ttl=600).try_acquire())
    assert lease is not None, "it is not in its own way"
    await cell.run(lease.release)
    await nothing_left(nodes.nodes, cell.name)


@some
async def test_refusal(cell: Cell, nodes: RedlockSet, proxies: list[TcpProxy], count: int) -> None:
    client, other = cell.client(), cell.client()
    lease = await cell.run(lambda: other.lock(cell.name, ttl=600).acquire())
    await connected(cell, client)
    for proxy in proxies[:count]:
        proxy.cut_after_request()
    assert await cell.run(lambda: client.lock(cell.name, ttl=600).try_acquire()) is None
    await renewed(cell, lease)
    await cell.run(lease.release)
    await nothing_left(nodes.nodes, cell.name)


@some
async def test_renewal(cell: Cell, nodes: RedlockSet, proxies: list[TcpProxy], count: int) -> None:
    lease = await held(cell, cell.client())
    number = lease.fence
    for proxy in proxies[:count]:
        proxy.cut_after_request()
    if count < 3:
        await cell.run(lease.renew)
    else:
        with pytest.raises(fencelock.QuorumLost) as caught:
            await cell.run(lease.renew)
        assert caught.value.outcome == "unknown"
    lease.check()
    await renewed(cell, lease)
    assert lease.fence == number
    assert {fence(node, cell.name) for node in nodes.nodes} == {number}
    await cell.run(lease.release)
    await nothing_left(nodes.nodes, cell.name)


@some
async def test_release(cell: Cell, nodes: RedlockSet, proxies: list[TcpProxy], count: int) -> None:
    client = cell.client()
    lease = await cell.run(lambda: client.lock(cell.name, ttl=600).acquire())
    waiter = cell.actor().start(lambda: client.lock(cell.name, ttl=600).acquire())
    await queued(cell, client, 1)
    for proxy in proxies[:count]:
        proxy.cut_after_request()
    await cell.run(lease.release)
    following = await within(waiter)
    assert following.fence > lease.fence
    assert not following.abandoned
    await cell.run(following.release)
    await nothing_left(nodes.nodes, cell.name)


async def test_a_release_of_which_some_hear_at_once_and_others_when_it_is_told_again(
    cell: Cell, nodes: RedlockSet, proxies: list[TcpProxy]
) -> None:
    """Two nodes give it back, then a third one: a majority, though never in one round."""
    lease = await held(cell, cell.client())
    for proxy in proxies[:3]:
        proxy.black_hole()
    releasing = cell.actor().start(lease.release)
    await soon(lambda: not any(holder(node, cell.name) for node in nodes.nodes[3:]), "two to hear")
    proxies[1].refuse()
    proxies[2].refuse()
    proxies[0].heal()
    await within(releasing)
    for proxy in proxies[1:3]:
        proxy.heal()
    await nothing_left(nodes.nodes, cell.name)


async def test_a_release_that_only_nodes_whose_answers_were_lost_can_decide(
    cell: Cell, nodes: RedlockSet, proxies: list[TcpProxy]
) -> None:
    """Two nodes have it, one does not, two are cut off: only these two can decide, and are asked again."""
    lease = await held(cell, cell.client())
    nodes.nodes[4].execute("DEL", keys_of(cell.name)[1])
    for proxy in proxies[:2]:
        proxy.cut_after_request()
    await cell.run(lease.release)
    await nothing_left(nodes.nodes, cell.name)


async def test_a_release_is_lost_after_the_others_have_answered(
    cell: Cell, nodes: RedlockSet, proxies: list[TcpProxy]
) -> None:
    """Nobody waits for the last two; but that they have heard it is not to be taken for granted."""
    lease = await held(cell, cell.client())
    for proxy in proxies[:2]:
        proxy.black_hole()
    await cell.run(lease.release)
    assert [holder(node, cell.name) for node in nodes.nodes[:2]] == [lease.id] * 2
    for proxy in proxies[:2]:
        proxy.cut()
        proxy.heal()
    await nothing_left(nodes.nodes, cell.name)


async def test_a_release_into_a_line_that_is_dead_without_a_word(
    cell: Cell, nodes: RedlockSet, proxies: list[TcpProxy]
) -> None:
    """Nobody uses it again, and it is given up all the same."""
    lease = await held(cell, cell.client())
    for proxy in proxies[:2]:
        proxy.black_hole()
    await cell.run(lease.release)
    await soon(lambda: not any(proxy._links for proxy in proxies[:2]), "the line to be given up")
    for proxy in proxies[:2]:
        proxy.heal()
    await nothing_left(nodes.nodes, cell.name)


async def test_a_release_is_refused_after_the_others_have_answered(
    cell: Cell, nodes: RedlockSet
) -> None:
    lease = await held(cell, cell.client())
    for node in nodes.nodes[:2]:
        node.execute("SCRIPT", "FLUSH")
        node.freeze()
    await cell.run(lease.release)
    for node in nodes.nodes[:2]:
        node.thaw()
    await nothing_left(nodes.nodes, cell.name)


async def test_a_withdrawal_is_lost_after_the_others_have_answered(
    cell: Cell, nodes: RedlockSet, proxies: list[TcpProxy]
) -> None:
    client, other = cell.client(), cell.client()
    await connected(cell, client)
    lease = await held(cell, other)
    for node in nodes.nodes[:2]:
        node.execute("DEL", keys_of(cell.name)[1])  # as if it had not heard of the holder
    for node in nodes.nodes[2:]:
        node.freeze()
    attempt = cell.actor().start(lambda: client.lock(cell.name, ttl=600).try_acquire())
    await soon(lambda: all(holder(node, cell.name) for node in nodes.nodes[:2]), "two votes")
    for proxy in proxies[:2]:
        proxy.black_hole()
    for node in nodes.nodes[2:]:
        node.thaw()
    assert await attempt is None
    for proxy in proxies[:2]:
        proxy.cut()
        proxy.heal()
    await cell.run(lease.release)
    await nothing_left(nodes.nodes, cell.name)


@pytest.mark.parametrize("count", [2, 5])
async def test_nobody_listens(
    cell: Cell, nodes: RedlockSet, proxies: list[TcpProxy], count: int
) -> None:
    """Everything is delivered, and nothing comes back."""
    client = cell.client()
    await connected(cell, client)
    for proxy in proxies[:count]:
        proxy.mute()
    attempt = cell.actor().start(lambda: client.lock(cell.name, ttl=600).try_acquire())
    if count == 2:
        await cell.run((await attempt).release)
    else:
        with pytest.raises(fencelock.QuorumLost) as caught:
            await attempt
        assert caught.value.outcome == "unknown"
    for proxy in proxies:
        proxy.heal()
    await nothing_left(nodes.nodes, cell.name)


async def test_a_waiter_that_is_cut_off_and_gives_up(
    cell: Cell, nodes: RedlockSet, proxies: list[TcpProxy]
) -> None:
    """What it left at the nodes is taken out once they can be reached, though it has gone."""
    client, other = cell.client(), cell.client()
    lease = await cell.run(lambda: other.lock(cell.name, ttl=600).acquire())
    waiter = cell.actor().start(lambda: client.lock(cell.name, ttl=600).acquire(timeout=3))
    await soon(lambda: all(waiters(node, cell.name) for node in nodes.nodes), "it to be known")
    for proxy in proxies[:2]:
        proxy.refuse()
    with pytest.raises(fencelock.LockTimeout):
        await waiter
    for proxy in proxies[:2]:
        proxy.heal()
    await soon(lambda: not any(waiters(node, cell.name) for node in nodes.nodes), "it to be gone")
    await cell.run(lease.release)
    await nothing_left(nodes.nodes, cell.name)


@pytest.mark.parametrize("steps", range(12))
async def test_cancelled_while_a_node_is_frozen(
    nodes: RedlockSet, complaints: list[str], steps: int
) -> None:
    """After so many turns of the event loop, wherever it is then."""
    async with fencelock.AsyncClient(nodes.url, ttl=600) as client:
        async with client.lock("before"):
            pass
        nodes.nodes[0].freeze()
        task: asyncio.Task[Any] = asyncio.create_task(client.lock("x").acquire())
        for _ in range(steps):
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait([task])
        if not task.cancelled():
            await task.result().release()
        nodes.nodes[0].thaw()
        await nothing_left(nodes.nodes, "x")
