"""Two replicas: one is killed, stopped or drained, and its clients go on at the other one."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any

import pytest

import fencelock
from tests.conformance.cells import Cell, queued
from tests.servers_service import Replica
from tests.waiting import soon, within

Pair = tuple[Replica, Replica]
Harm = Callable[[Replica], None]

HARMS: dict[str, Harm] = {
    "killed": Replica.kill,
    "drained": Replica.stop,
    "stopped": Replica.freeze,
}


@pytest.fixture(params=HARMS)
def harm(request: pytest.FixtureRequest) -> Harm:
    return HARMS[request.param]


def used_by(client: Any, pair: Pair) -> Replica:
    """The replica that a client asks at present."""
    port = client._context.bare_engine._node.port
    return next(each for each in pair if each.port == port)


async def test_a_waiter_keeps_its_place(cell: Cell, pair: Pair, harm: Harm) -> None:
    client = cell.client()
    with fencelock.Client(pair[0].engine_url) as holder:
        lease = holder.lock(cell.name).acquire()
        waiter = cell.actor().start(lambda: client.lock(cell.name, ttl=15).acquire())
        await queued(cell, client, 1)
        (before,) = holder.inspect(cell.name).waiters
        harm(used_by(client, pair))

        async def answers() -> bool:
            try:
                return bool((await cell.run(lambda: client.inspect(cell.name))).waiting)
            except fencelock.EngineError:
                return False

        await soon(answers, "an answer of the other replica")
        lease.release()
        assert (await within(waiter)).fence == before.fence


async def test_a_holder_keeps_its_lease(cell: Cell, pair: Pair, harm: Harm) -> None:
    client = cell.client()
    lost: list[Any] = []
    lease = await cell.run(lambda: client.lock(cell.name, ttl=9, on_lost=lost.append).acquire())
    harm(used_by(client, pair))
    renewed = lease._claim.sent_at
    await soon(lambda: lease._claim.sent_at > renewed, "a renewal at the other replica")
    assert not lost
    await cell.run(lease.release)


async def test_draining_loses_nothing(cell: Cell, pair: Pair) -> None:
    """Requests under way are answered, and the others are sent to the other replica: nobody gets an error."""
    client, going = cell.client(), True
    turns = [0, 0, 0]

    async def work(number: int) -> None:
        actor = cell.actor()
        while going:
            lease = await actor.do(lambda: client.lock(cell.name).acquire())
            turns[number] += 1
            await actor.do(lease.release)

    workers = [asyncio.create_task(work(number)) for number in range(3)]
    await soon(lambda: min(turns) > 5, "some turns")
    drained = used_by(client, pair)
    await asyncio.to_thread(drained.stop)
    seen = list(turns)
    await soon(lambda: all(now > then + 5 for now, then in zip(turns, seen, strict=True)), "more")
    going = False
    await asyncio.gather(*map(within, workers))
    assert used_by(client, pair) is not drained


async def test_nobody_answers(cell: Cell, pair: Pair) -> None:
    client = cell.client()
    await cell.run(client.names)
    for each in pair:
        each.freeze()
    began = time.monotonic()
    with pytest.raises(fencelock.EngineError) as caught:
        await cell.run(lambda: client.lock(cell.name).acquire(timeout=0.5))
    assert time.monotonic() - began < 25, "reported, not hung"
    assert caught.value.__cause__ is not None
    for each in pair:
        each.thaw()
    assert await cell.run(lambda: client.lock(cell.name + "2").acquire())


async def test_a_replica_with_another_engine_is_refused(
    cell: Cell, pair: Pair, tmp_path: Any
) -> None:
    client = cell.client()
    await cell.run(client.names)
    first = used_by(client, pair)
    other = next(each for each in pair if each is not first)
    other.kill()
    other.engine_url = f"sqlite:///{tmp_path}/locks.db"
    other.start()
    first.kill()
    with pytest.raises(fencelock.EngineError, match="same engine") as caught:
        await cell.run(lambda: client.lock(cell.name).acquire(timeout=0))
    assert caught.value.outcome in ("not applied", "unknown")
