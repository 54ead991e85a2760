"""The asyncio testing client."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

import fencelock
from fencelock import LeaseState, testing
from tests.waiting import PATIENCE, soon, within


@pytest.fixture
async def client() -> AsyncIterator[testing.AsyncClient]:
    """As most programs would write it: in a task of its own."""
    async with testing.AsyncClient() as client, client.lock("of the fixture"):
        yield client


async def waiter(
    client: testing.AsyncClient, timeout: float | None = None
) -> asyncio.Task[fencelock.AsyncLease]:
    """A task that waits for "x"."""
    others = (await client.inspect("x")).waiting
    task = asyncio.create_task(client.lock("x").acquire(timeout))

    async def waits() -> bool:
        return (await client.inspect("x")).waiting > others

    await soon(waits, "the waiter")
    return task


async def pay(client: fencelock.AsyncClient) -> int:
    """Code of a user."""
    async with client.lock("order:42") as lease:
        return lease.fence


async def test_it_is_a_client_like_any_other(client: testing.AsyncClient) -> None:
    assert await pay(client) < await pay(client)


async def test_a_contender_in_the_same_task_times_out_at_once(client: testing.AsyncClient) -> None:
    async with client.lock("x"):
        started = client.clock.now()
        with client.caller("contender"), pytest.raises(fencelock.LockTimeout, match="for 600"):
            await client.lock("x").acquire(timeout=600)
        assert client.clock.now() == started + 600
        with pytest.raises(fencelock.WouldDeadlock):
            await client.lock("x").acquire(timeout=5)


async def test_other_tasks_go_on_before_the_clock_moves(client: testing.AsyncClient) -> None:
    async def hold() -> None:
        async with client.lock("x"):
            entered.set()
            await asyncio.sleep(0)

    entered = asyncio.Event()
    now = client.clock.now()
    async with client.lock("y"):
        holder = asyncio.create_task(hold())
        await entered.wait()
        async with client.lock("x", timeout=5):
            assert client.clock.now() == now
    await holder


async def test_a_waiting_task_goes_on_or_times_out(client: testing.AsyncClient) -> None:
    async with client.lock("x") as lease:
        patient, hasty = await waiter(client), await waiter(client, timeout=5)
        client.clock.advance(5)
        with pytest.raises(fencelock.LockTimeout):
            await within(hasty)
        client.clock.advance(3600)
        assert not patient.done()
    assert (await within(patient)).fence > lease.fence


async def test_an_expired_lease_cancels_its_body(client: testing.AsyncClient) -> None:
    waiting: list[asyncio.Task[fencelock.AsyncLease]] = []

    async def work() -> None:
        async with client.lock("x", on_lost="cancel") as lease:
            waiting.append(await waiter(client))
            client.expire(lease)
            await asyncio.sleep(PATIENCE)

    with pytest.raises(fencelock.LeaseLost):
        await work()
    assert (await within(waiting[0])).abandoned


async def test_a_failure_and_a_loss(client: testing.AsyncClient) -> None:
    client.fail_next("enter", "unknown", applied=True, times=2)
    with pytest.raises(fencelock.EngineError):
        await client.lock("x").acquire()
    lease = await client.lock("x").acquire()
    client.lose(lease, "the network was cut")
    assert lease.state is LeaseState.LOST
    assert await client.lock("x").try_acquire()


async def test_a_cancelled_waiter_leaves_the_queue(client: testing.AsyncClient) -> None:
    async with client.lock("x"):
        waiting = await waiter(client)
        waiting.cancel()
        await asyncio.wait([waiting])
        assert not (await client.inspect("x")).waiting


async def test_a_wait_that_can_t_end_is_an_error(
    client: testing.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fencelock.testing.engine.HOPELESS", 100)
    async with client.lock("x"):
        with client.caller("B"), pytest.raises(AssertionError, match="waiting for 'x' would never"):
            await client.lock("x").acquire()


def test_each_event_loop_has_its_own_leases_on_one_clock() -> None:
    client = testing.AsyncClient()

    async def use() -> float:
        async with client.lock("x", ttl=30):
            client.clock.advance(10)
        await client.close()
        return client.clock.now()

    assert asyncio.run(use()) < asyncio.run(use())
