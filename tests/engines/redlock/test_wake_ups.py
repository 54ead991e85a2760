"""A release wakes one waiter, and one only; how many connections it takes to wait."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

import fencelock
from fencelock.core.ticket import Owner, Place, Ticket
from fencelock.engines.contract import Engine
from fencelock.engines.registry import open_engine
from fencelock.io import clock
from fencelock.io.asyncio import AsyncioIO
from fencelock.io.blocking import BlockingIO, run
from fencelock.primitives.waiting import new_id
from tests.conformance.cells import OpenCell, queued
from tests.engines.redis.server_state import next_done
from tests.engines.redlock.node_state import counted, links, listening, nothing_left, waiters
from tests.servers_redlock import RedlockSet
from tests.waiting import soon

LIMIT = 2.0


def engine(nodes: RedlockSet, face: str) -> Engine:
    return open_engine(nodes.url, BlockingIO() if face == "sync" else AsyncioIO())


def ticket(number: int) -> Ticket:
    return Ticket("x", new_id(), 600.0, Owner("here", number))


async def wait(one: Engine, its: Ticket, nodes: RedlockSet) -> None:
    """Have a ticket wait, and all nodes know it."""
    assert (await one.enter(its, if_free=False, timeout=LIMIT)).place is Place.WAITING
    await soon(lambda: all(its.id in waiters(node, "x") for node in nodes.nodes), "it to be known")


async def test_a_renewal_does_not_put_off_the_next_bid(nodes: RedlockSet, face: str) -> None:
    """A lock that expires wakes nobody: only the next bid can find it free."""
    one = engine(nodes, face)
    holder, waiter = ticket(1), ticket(2)
    await one.enter(holder, if_free=False, timeout=LIMIT)
    await wait(one, waiter, nodes)
    (standing,) = await one.renew([waiter], timeout=LIMIT)
    assert standing is not None
    assert standing.place is Place.WAITING
    assert standing.recheck <= 0.5
    for its in (waiter, holder):
        one.unpark(its)
        await one.leave(its, timeout=LIMIT)
    await one.close()


async def test_a_release_wakes_the_first_one_only(nodes: RedlockSet, face: str) -> None:
    one = engine(nodes, face)
    holder, first, second = (ticket(number) for number in range(3))
    await one.enter(holder, if_free=False, timeout=LIMIT)
    await wait(one, first, nodes)
    await wait(one, second, nodes)
    with counted(nodes.nodes) as seen:
        assert await one.leave(holder, timeout=LIMIT)
        await soon(lambda: not any(_first(nodes, first)), "all nodes to have released it")
    assert [counts["publish"] for counts in seen] == [1] * 5
    assert all(waiters(node, "x") == [second.id] for node in nodes.nodes)
    assert await one.park(first, clock.now() + 600) is None, "woken, not out of time"
    assert (await one.enter(first, if_free=False, timeout=LIMIT)).place is Place.ADMITTED
    for its in (first, second):
        one.unpark(its)
        await one.leave(its, timeout=LIMIT)
    await nothing_left(nodes.nodes, "x")
    await one.close()


def _first(nodes: RedlockSet, its: Ticket) -> list[bool]:
    return [its.id in waiters(node, "x") for node in nodes.nodes]


async def test_a_dead_waiter_is_skipped(nodes: RedlockSet, face: str) -> None:
    one, dead = engine(nodes, face), engine(nodes, face)
    holder, first, second = (ticket(number) for number in range(3))
    await one.enter(holder, if_free=False, timeout=LIMIT)
    await wait(dead, first, nodes)
    dead.unpark(first)
    await dead.close()  # its tickets stay where they are
    await soon(lambda: not any(listening(node, "x") for node in nodes.nodes), "it to be gone")
    await wait(one, second, nodes)
    with counted(nodes.nodes) as seen:
        await one.leave(holder, timeout=LIMIT)
        await soon(lambda: not any(_first(nodes, second)), "everyone to have been woken")
    assert [counts["publish"] for counts in seen] == [2] * 5
    assert await one.park(second, clock.now() + 600) is None
    assert (await one.enter(second, if_free=False, timeout=LIMIT)).place is Place.ADMITTED
    await one.leave(second, timeout=LIMIT)
    await one.close()


async def test_tasks_that_wait_share_their_connections(nodes: RedlockSet) -> None:
    # A slow node has no core at the moment: no client may drop its connection.
    async with fencelock.AsyncClient(f"{nodes.url}?node_timeout=30", ttl=600) as client:
        gate = await client.lock("x").acquire()
        served: list[int] = []

        async def contend() -> None:
            async with client.lock("x") as lease:
                served.append(lease.fence)

        tasks = [asyncio.create_task(contend()) for _ in range(100)]
        await soon(lambda: _waiting(client, 100), "everyone to wait")
        assert [links(node) for node in nodes.nodes] == [1] * 5
        await gate.release()
        await asyncio.gather(*tasks)
        assert served == sorted(set(served))
    await nothing_left(nodes.nodes, "x")


async def _waiting(client: Any, count: int) -> bool:
    return bool((await client.inspect("x", limit=0)).waiting == count)


@pytest.mark.parametrize("face", ["sync"], indirect=True)
async def test_threads_that_wait_have_one_connection_each(
    nodes: RedlockSet, open_cell: OpenCell
) -> None:
    cell = open_cell(nodes.url)
    client = cell.client(ttl=600)
    gate = await cell.run(lambda: client.lock("x").acquire())
    threads = [cell.actor().start(lambda: client.lock("x").acquire()) for _ in range(20)]
    await queued(cell, client, 20, "x")
    spare = 3  # the holder's, this test's, the keeper's
    assert all(20 <= links(node) <= 20 + spare for node in nodes.nodes)
    await cell.run(gate.release)
    while threads:
        done = await next_done(threads)
        await cell.run(done.result().release)
    await nothing_left(nodes.nodes, "x")


async def test_an_interrupted_waiter_looks_again_and_blames_no_node(
    nodes: RedlockSet, face: str
) -> None:
    one = engine(nodes, face)
    holder, waiter = ticket(0), ticket(1)
    await one.enter(holder, if_free=False, timeout=LIMIT)
    await wait(one, waiter, nodes)
    one.interrupt(waiter)  # it is not parked yet
    parking = one.park(waiter, clock.now() + 600)
    parked = asyncio.create_task(parking if face == "async" else asyncio.to_thread(run, parking))

    async def back() -> bool:
        one.interrupt(waiter)
        await asyncio.sleep(0.01)
        return parked.done()

    await soon(back, "it to come back")
    assert parked.result() is None
    await wait(one, waiter, nodes)
    assert one._nodes.explain() == ""  # type: ignore[attr-defined]
    assert all(waiters(node, "x") == [waiter.id] for node in nodes.nodes)
    one.unpark(waiter)
    await one.close()


async def test_a_waiter_is_listed_under_its_new_owner_only(nodes: RedlockSet, face: str) -> None:
    """Else a release would wake it twice, and somebody else not at all."""
    one = engine(nodes, face)
    holder, waiter = ticket(0), ticket(1)
    await one.enter(holder, if_free=False, timeout=LIMIT)
    await wait(one, waiter, nodes)
    renamed = waiter._replace(owner=Owner("here", 1, "renamed"))
    await one.enter(renamed, if_free=False, timeout=LIMIT)

    async def listed() -> bool:
        seen = await one.inspect("x", limit=9, timeout=LIMIT)
        return [each.owner for each in seen.waiters] == [renamed.owner]

    await soon(listed, "the new owner to be listed")
    await soon(
        lambda: all(waiters(node, "x") == [waiter.id] for node in nodes.nodes), "one entry each"
    )
    one.unpark(renamed)
    await one.close()
