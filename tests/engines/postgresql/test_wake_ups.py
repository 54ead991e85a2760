"""Who waits is woken by the release itself; many who wait need few connections."""

import asyncio
import threading
import time

import pytest

import holdfast
from tests.conformance.cells import Cell, queued
from tests.engines.postgresql.seeing import connections, listening
from tests.servers_postgresql import PostgresqlServer
from tests.waiting import eventually, soon


async def test_an_undisputed_lock_needs_one_connection(
    cell: Cell, server: PostgresqlServer
) -> None:
    client = cell.client()
    for _ in range(3):
        await cell.run((await cell.run(client.lock(cell.name).acquire)).release)
    assert await cell.run(client.lock(cell.name).try_acquire)
    assert await cell.run(client.lock(cell.name).try_acquire) is None
    assert connections(server) == 1
    assert listening(server) == []


async def test_one_listener_for_all_who_wait(cell: Cell, server: PostgresqlServer) -> None:
    client = cell.client()
    leases = [await cell.run(client.lock(f"{cell.name}:{n}").acquire) for n in range(10)]
    waiters = [cell.actor().start(client.lock(f"{cell.name}:{n}").acquire) for n in range(10)]
    for n in range(10):
        await queued(cell, client, 1, f"{cell.name}:{n}")
    assert len(listening(server)) == 1
    for lease in leases:
        await cell.run(lease.release)
    await asyncio.gather(*waiters)


async def test_a_wake_up_carries_the_answer(
    cell: Cell, server: PostgresqlServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From the release to the next holder there is one statement: the release."""
    client, other = cell.client(), cell.client()
    lease = await cell.run(other.lock(cell.name).acquire)
    waiter = cell.actor().start(client.lock(cell.name, ttl=60).acquire)
    await queued(cell, other, 1)
    await soon(lambda: client._engine._ears._ears, "the waiter to sleep")
    monkeypatch.setattr(client._engine, "_ask", None)  # it must not ask anything
    await cell.run(lease.release)
    assert (await asyncio.wait_for(waiter, 10)).fence > lease.fence
    monkeypatch.undo()


async def test_five_hundred_tasks_wait(server: PostgresqlServer) -> None:
    async with holdfast.AsyncClient(server.url) as client:
        first = await client.lock("crowd", ttl=60).acquire()
        fences: list[int] = []

        async def turn() -> None:
            async with client.lock("crowd", ttl=60) as lease:
                fences.append(lease.fence)

        turns: list[asyncio.Task[None]] = []

        async def all_wait() -> bool:
            return (await client.inspect("crowd", limit=0)).waiting == len(turns)

        for _ in range(20):
            turns += [asyncio.create_task(turn()) for _ in range(25)]
            await soon(all_wait, "all to wait", timeout=30)
        assert connections(server) <= 9, "eight for requests, one to listen"
        await first.release()
        await asyncio.wait_for(asyncio.gather(*turns), 60)
        assert fences == sorted(set(fences))


def test_threads_wait(server: PostgresqlServer) -> None:
    with holdfast.Client(server.url) as client:
        first = client.lock("crowd", ttl=60).acquire()
        fences: list[int] = []

        def turn() -> None:
            with client.lock("crowd", ttl=60) as lease:
                fences.append(lease.fence)

        threads = [threading.Thread(target=turn) for _ in range(100)]
        before = threading.active_count()
        for count, thread in enumerate(threads, 1):
            thread.start()
            if count % 20 == 0:
                eventually(
                    lambda: client.inspect("crowd", limit=0).waiting == count,  # noqa: B023
                    "all to wait",
                    timeout=30,
                )
        assert connections(server) <= 9
        assert threading.active_count() <= before + len(threads) + 2, "no thread per waiter"
        first.release()
        for thread in threads:
            thread.join(60)
        assert fences == sorted(set(fences))
        assert len(fences) == 100


async def test_nobody_listens_for_nobody(
    cell: Cell, server: PostgresqlServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("holdfast.engines.postgresql.ears._IDLE", 0.2)
    client = cell.client()
    for _ in range(2):
        lease = await cell.run(client.lock(cell.name).acquire)
        waiter = cell.actor().start(client.lock(cell.name).acquire)
        await queued(cell, client, 1)
        assert len(listening(server)) == 1
        await cell.run(lease.release)
        await cell.run((await waiter).release)
        await soon(lambda: listening(server) == [], "the listener to hang up")


async def test_a_wake_up_that_is_lost(cell: Cell, server: PostgresqlServer) -> None:
    """Renewals bring the news as well."""
    client, other = cell.client(), cell.client()
    lease = await cell.run(other.lock(cell.name).acquire)
    waiter = cell.actor().start(client.lock(cell.name, ttl=1.5).acquire)
    await queued(cell, other, 1)
    server.execute("UPDATE holdfast.waiters SET channel = 'nowhere'")
    await cell.run(lease.release)
    started = time.monotonic()
    assert (await asyncio.wait_for(waiter, 10)).fence > lease.fence
    assert time.monotonic() - started < 5


async def test_a_small_pool_is_shared(server: PostgresqlServer, face: str) -> None:
    cell = Cell("postgresql", face, server.url + "?connections=1")
    client = cell.client()

    async def contend(n: int) -> None:
        actor = cell.actor()
        for _ in range(5):
            lease = await actor.do(client.lock(f"{cell.name}:{n % 3}").acquire)
            await actor.do(lease.release)

    await asyncio.gather(*(contend(n) for n in range(9)))
    assert connections(server) <= 2
    await cell.close()
