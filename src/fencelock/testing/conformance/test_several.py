"""Several locks at once: all or nothing, in one order."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

import fencelock
from fencelock.testing.conformance.cells import Cell, kept_by, lasting, queued
from fencelock.testing.conformance.waiting import soon, within


def three(cell: Cell) -> list[str]:
    return [f"{cell.name}:{letter}" for letter in "cab"]


async def held(cell: Cell, client: Any) -> list[str]:
    return [name[-1] for name in await cell.run(lambda: client.names(f"{cell.name}:*"))]


async def test_all_are_held_and_given_back_together(cell: Cell) -> None:
    client = cell.client()
    both = client.lock_all(three(cell))
    leases = await cell.run(both.acquire)
    assert list(leases) == sorted(three(cell)) == both.names
    assert await held(cell, client) == ["a", "b", "c"]
    leases.check()
    assert all(lease.fence > 0 for lease in leases.values())
    assert await cell.run(both.try_acquire) is None
    await cell.run(leases.release)
    assert await held(cell, client) == []
    assert await cell.run(both.try_acquire) is not None


async def test_nothing_is_held_if_one_can_not_be_had(cell: Cell) -> None:
    client, other = cell.client(), cell.client()
    obstacle = await cell.run(other.lock(f"{cell.name}:b").acquire)
    with pytest.raises(fencelock.LockTimeout) as caught:
        await cell.run(lambda: client.lock_all(three(cell)).acquire(timeout=0.3))
    assert caught.value.name == f"{cell.name}:b"
    assert await cell.run(client.lock_all(three(cell)).try_acquire) is None
    assert await held(cell, client) == ["b"]
    waiting = cell.actor().start(client.lock_all(three(cell)).acquire)
    await queued(cell, client, 1, f"{cell.name}:b")
    assert await held(cell, client) == ["a", "b"], "what comes later is not held in advance"
    await cell.run(obstacle.release)
    leases = await within(waiting)
    assert leases[f"{cell.name}:b"].fence > obstacle.fence


async def test_it_begins_anew_if_one_is_lost_while_another_is_waited_for(cell: Cell) -> None:
    cell.needs("leases_expire")
    client, other = cell.client(), cell.client()
    first, second = f"{cell.name}:a", f"{cell.name}:b"
    obstacle = await cell.run(other.lock(second).acquire)
    waiting = cell.actor().start(client.lock_all([first, second], ttl=1.5).acquire)
    await queued(cell, client, 1, second)
    assert await cell.run(lambda: other.break_lock(first))

    def noticed() -> bool:
        return all(kept.ticket.name != first for kept in kept_by(client))

    await soon(noticed, "the loss to be noticed")
    between = await cell.run(other.lock(first).acquire)
    await cell.run(obstacle.release)
    await cell.run(between.release)
    leases = await within(waiting)
    leases.check()
    assert leases[first].fence > between.fence
    await cell.run(leases.release)


async def test_two_who_want_the_same_in_another_order(cell: Cell) -> None:
    client, other = cell.client(), cell.client()
    turns: list[int] = []

    async def take(number: int, names: list[str]) -> None:
        actor = cell.actor()
        mine = (client, other)[number]
        for _ in range(5):
            leases = await actor.do(mine.lock_all(names, timeout=30).acquire)
            turns.append(number)
            await actor.do(leases.release)

    names = three(cell)
    await asyncio.gather(take(0, names), take(1, names[::-1]))
    assert sorted(turns) == [0] * 5 + [1] * 5


async def test_a_with_block_and_a_lease_that_is_lost(cell: Cell) -> None:
    client = cell.client()
    names = three(cell)
    options = lasting(client, 60)
    lost: list[str] = []

    def body() -> Any:
        both = client.lock_all(names, on_lost=lambda lease: lost.append(lease.name), **options)
        if cell.face == "async":
            return entered(both)
        with both as leases:
            client.break_lock(names[0])
            renew(leases)
        return None

    async def entered(both: Any) -> None:
        async with both as leases:
            await client.break_lock(names[0])
            try:
                await leases[names[0]].renew()
            except fencelock.LeaseLost:
                leases[names[1]].check()

    def renew(leases: Any) -> None:
        try:
            leases[names[0]].renew()
        except fencelock.LeaseLost:
            leases[names[1]].check()

    with pytest.raises(fencelock.LeaseLost):
        await cell.run(body)
    assert lost == [names[0]]
    assert await held(cell, client) == []


async def test_a_lease_that_was_broken_unnoticed_is_told_when_all_are_released(cell: Cell) -> None:
    cell.needs("leases_expire")  # a session that has ended says nothing about its locks
    client, other = cell.client(), cell.client()
    names = three(cell)
    leases = await cell.run(client.lock_all(names, **lasting(client, 60)).acquire)
    assert await cell.run(lambda: other.break_lock(names[0]))
    with pytest.raises(fencelock.LeaseLost) as caught:
        await cell.run(leases.release)
    assert caught.value.name == names[0]
    assert await held(cell, client) == []
    assert await cell.run(client.lock_all(names).try_acquire) is not None


async def test_what_lock_all_must_be_given(cell: Cell) -> None:
    client = cell.client()
    with pytest.raises(ValueError, match="at least one"):
        client.lock_all([])
    with pytest.raises(ValueError, match="each name once"):
        client.lock_all(["a", "b", "a"])
    with pytest.raises(TypeError, match="several names"):
        client.lock_all("abc")
    caller = cell.actor()
    lease = await caller.do(client.lock(f"{cell.name}:a").acquire)
    with pytest.raises(fencelock.WouldDeadlock):
        await caller.do(client.lock_all(three(cell)).acquire)
    assert await held(cell, client) == ["a"]
    await caller.do(lease.release)
