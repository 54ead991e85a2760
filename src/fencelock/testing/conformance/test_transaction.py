"""Transactions: locks taken step by step, and nobody waits in a circle for ever."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Any

import pytest

import fencelock
from fencelock.testing.conformance.cells import Cell, queued
from fencelock.testing.conformance.waiting import soon

ANY_ENGINE = ("timeout", "ordered")
WITH_A_QUEUE = ("wait-die", "wound-wait", "detect")


def policies(client: Any) -> tuple[str, ...]:
    queue = client.traits.fenced_while_waiting and client.traits.fifo
    return (*WITH_A_QUEUE, "timeout") if queue else ("timeout",)


class Party:
    """One transaction that takes two names, and waits in between until the other one has its first."""

    def __init__(self, cell: Cell, client: Any, policy: str, names: tuple[str, str]) -> None:
        self.names = names
        self.victims: list[fencelock.DeadlockVictim] = []
        self.transaction = client.transaction(policy, patience=0.2, label=f"wants {names[1]}")
        self.first = asyncio.Event()
        self.other: Party | None = None
        self.fences: list[int] = []
        self._work: Any = self._take_async if cell.face == "async" else self._take
        self._loop = asyncio.get_running_loop()

    def start(self, cell: Cell) -> asyncio.Task[Any]:
        return cell.actor().start(lambda: self.transaction.run(self._work))

    def _take(self, transaction: Any) -> list[int]:
        first = transaction.lock(self.names[0])
        asyncio.run_coroutine_threadsafe(self._meet(), self._loop).result(60)
        try:
            second = transaction.lock(self.names[1])
        except fencelock.DeadlockVictim as victim:
            self.victims.append(victim)
            raise
        return [first.fence, second.fence]

    async def _take_async(self, transaction: Any) -> list[int]:
        first = await transaction.lock(self.names[0])
        await self._meet()
        try:
            second = await transaction.lock(self.names[1])
        except fencelock.DeadlockVictim as victim:
            self.victims.append(victim)
            raise
        return [first.fence, second.fence]

    async def _meet(self) -> None:
        assert self.other is not None
        self.first.set()
        await self.other.first.wait()


async def test_two_who_want_what_the_other_has(cell: Cell) -> None:
    client, other = cell.client(), cell.client()
    for policy in policies(client):
        a, b = f"{cell.name}:{policy}:a", f"{cell.name}:{policy}:b"
        one, two = Party(cell, client, policy, (a, b)), Party(cell, other, policy, (b, a))
        one.other, two.other = two, one
        fences = await asyncio.wait_for(asyncio.gather(one.start(cell), two.start(cell)), 60)
        assert fences[0] != fences[1]
        victims = one.victims + two.victims
        assert victims, f"{policy}: somebody had to give way"
        assert sum(party.transaction.attempts for party in (one, two)) == 2 + len(victims)
        if policy == "detect":
            assert len(victims) == 1, "one is enough"
            told = str(victims[0])
            assert all(f"waits for '{name}'" in told for name in (a, b))
            assert all(f"wants {name}" in told for name in (a, b)), "both processes, both locks"
            assert len(victims[0].cycle) == 2
        patterns = [f"tx {party.transaction.id}*" for party in (one, two)]
        await soon(partial(_gone, cell, client, [*patterns, f"{cell.name}:*"]), "no name in use")


async def _gone(cell: Cell, client: Any, patterns: list[str]) -> bool:
    return not any([await cell.run(partial(client.names, pattern)) for pattern in patterns])


async def test_a_transaction_gives_everything_back(cell: Cell) -> None:
    client = cell.client()
    transaction = client.transaction("ordered")
    names = [f"{cell.name}:{letter}" for letter in "abc"]
    actor = cell.actor()

    async def body() -> None:
        if cell.face == "sync":
            await actor.do(lambda: _hold(transaction, names))
        else:
            await actor.do(lambda: _hold_async(transaction, names))

    with pytest.raises(fencelock.WouldDeadlock, match="alphabetical order"):
        await body()
    assert await cell.run(lambda: client.names(f"{cell.name}:*")) == []


def _hold(transaction: Any, names: list[str]) -> None:
    with transaction:
        fence = transaction.lock(names[1]).fence
        assert transaction.lock(names[1]).fence == fence, "held already"
        transaction.lock(names[2])
        assert transaction.names == names[1:]
        transaction.lock(names[0])


async def _hold_async(transaction: Any, names: list[str]) -> None:
    async with transaction:
        fence = (await transaction.lock(names[1])).fence
        assert (await transaction.lock(names[1])).fence == fence, "held already"
        await transaction.lock(names[2])
        assert transaction.names == names[1:]
        await transaction.lock(names[0])


async def test_it_ends_some_day(cell: Cell) -> None:
    """A bound on the attempts, and one on the time."""
    client, other = cell.client(), cell.client()
    obstacle = await cell.run(other.lock(f"{cell.name}:b").acquire)

    def work(transaction: Any) -> None:
        transaction.lock(f"{cell.name}:a")
        transaction.lock(f"{cell.name}:b")

    async def async_work(transaction: Any) -> None:
        await transaction.lock(f"{cell.name}:a")
        await transaction.lock(f"{cell.name}:b")

    both = work if cell.face == "sync" else async_work
    patient = client.transaction("timeout", attempts=2, patience=0.05)
    with pytest.raises(fencelock.DeadlockVictim, match="waited too long"):
        await cell.run(lambda: patient.run(both))
    assert patient.attempts == 2
    hurried = client.transaction("timeout", timeout=0.3, patience=5)
    with pytest.raises(fencelock.LockTimeout):
        await cell.run(lambda: hurried.run(both))
    await cell.run(obstacle.release)
    assert await cell.run(lambda: client.names(f"{cell.name}:*")) == []


async def test_what_a_transaction_must_be_given(cell: Cell) -> None:
    client = cell.client()
    with pytest.raises(ValueError, match="policy must be one of"):
        client.transaction("hope")
    with pytest.raises(ValueError, match="attempts must be"):
        client.transaction("timeout", attempts=0)
    with pytest.raises(ValueError, match="patience must be"):
        client.transaction("timeout", patience=0)
    for policy in WITH_A_QUEUE:
        if policy in policies(client):
            client.transaction(policy)
        else:
            with pytest.raises(fencelock.Unsupported, match="the order of its waiters"):
                client.transaction(policy)


async def test_those_without_a_transaction_are_waited_for(cell: Cell) -> None:
    client, other = cell.client(), cell.client()
    obstacle = await cell.run(other.lock(f"{cell.name}:b").acquire)
    names = (f"{cell.name}:a", f"{cell.name}:b")
    party = Party(cell, client, policies(client)[0], names)
    party.other = party
    waiting = party.start(cell)
    await queued(cell, client, 1, names[1])
    await cell.run(obstacle.release)
    fences = await asyncio.wait_for(waiting, 60)
    assert fences[1] > obstacle.fence
    if client.traits.fifo and client.traits.fenced_while_waiting:
        assert party.victims == []
