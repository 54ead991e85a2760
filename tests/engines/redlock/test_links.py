"""Connections that lie idle, are cut, or are used by others meanwhile."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

import fencelock
from fencelock.engines.failure import RequestFailed
from fencelock.engines.redlock.blocking import BlockingLinks
from fencelock.engines.redlock.multiplexed import MultiplexedLinks
from fencelock.io import clock
from fencelock.io.blocking import run
from tests.conformance.cells import OpenCell
from tests.engines.redlock.node_state import connected, holders, listening, nothing_left, waiters
from tests.servers_redlock import RedlockSet
from tests.waiting import PATIENCE, soon


async def test_a_node_whose_answer_was_not_read_yet_is_not_silent(
    nodes: RedlockSet, open_cell: OpenCell
) -> None:
    """A majority is enough, so there are always answers that the next question reads."""
    cell = open_cell(nodes.url + "?node_timeout=1")
    client = cell.client()
    for _ in range(2):
        await connected(cell, client)
        await asyncio.sleep(1.2)  # longer than the node timeout
    lease = await cell.run(lambda: client.lock(cell.name).acquire())
    assert [health.failure for health in client._context.engine._nodes.all] == [None] * 5
    await soon(lambda: holders(nodes.nodes, cell.name) == [lease.id] * 5, "all votes")


async def test_a_waiter_that_is_cut_off_comes_back(nodes: RedlockSet, open_cell: OpenCell) -> None:
    cell = open_cell(nodes.url)
    client, other = cell.client(ttl=600), cell.client(ttl=600)
    lease = await cell.run(lambda: other.lock(cell.name).acquire())
    waiter = cell.actor().start(lambda: client.lock(cell.name).acquire())
    await soon(lambda: all(waiters(node, cell.name) for node in nodes.nodes), "it to be known")
    for node in nodes.nodes[:2]:
        node.execute("CLIENT", "KILL", "TYPE", "pubsub")
    await soon(
        lambda: all(listening(node, cell.name) == 1 for node in nodes.nodes),
        "it to listen again",
    )
    assert all(len(waiters(node, cell.name)) == 1 for node in nodes.nodes), "and not twice"
    await cell.run(lease.release)
    following = await waiter
    await cell.run(following.release)
    await nothing_left(nodes.nodes, cell.name)


async def test_a_task_that_gives_nodes_up_ends_the_waiting_of_another(nodes: RedlockSet) -> None:
    """They share the links; but a task can't go on within another one."""
    async with fencelock.AsyncClient(nodes.url + "?node_timeout=30") as client:
        async with client.lock("before", ttl=600):
            pass
        for node in nodes.nodes[:3]:
            node.freeze()
        patient = asyncio.create_task(client.lock("a", ttl=600).try_acquire())
        impatient = asyncio.create_task(client.lock("b", ttl=1).try_acquire())
        for task in (patient, impatient):
            with pytest.raises(fencelock.QuorumLost):
                await task
        for node in nodes.nodes[:3]:
            node.thaw()


@pytest.mark.parametrize("kind", [BlockingLinks, MultiplexedLinks])
async def test_a_request_to_a_node_whose_link_was_lost_is_answered_by_a_failure(kind: Any) -> None:
    """A node may be lost between its vote and the order to raise its fence."""
    links = kind(1)
    links.begin()
    links.send(0, b"raise", 1)
    until = clock.now() + PATIENCE
    answer = (
        run(links.next_answer(until)) if kind is BlockingLinks else await links.next_answer(until)
    )
    assert (answer[0], type(answer[1]), answer[1].outcome) == (0, RequestFailed, "not applied")


def test_threads_that_take_and_give_meanwhile(nodes: RedlockSet) -> None:
    """A release by another thread may overtake the request that took the lock, at a slow node."""
    held: list[fencelock.Lease] = []
    with fencelock.Client(nodes.url, ttl=600) as client:

        def take(number: int) -> None:
            for turn in range(20):
                held.append(client.lock(f"{number}:{turn}").acquire())

        takers = [threading.Thread(target=take, args=(number,)) for number in range(4)]
        for taker in takers:
            taker.start()
        for _ in range(80):
            while not held:
                threading.Event().wait(0.001)
            held.pop().release()
        for taker in takers:
            taker.join()
        for number in range(4):
            for turn in range(20):
                asyncio.run(nothing_left(nodes.nodes, f"{number}:{turn}"))
