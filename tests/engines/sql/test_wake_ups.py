"""Many waiters need few connections, and one more that listens, in either database."""

import asyncio
import re
import threading
from collections.abc import Iterator

import pytest

import fencelock
from tests.conformance.cells import Cell, OpenCell, answered, kept_by, queued
from tests.engines.sql.conftest import Database
from tests.proxy import Harm, TcpProxy, garbled
from tests.waiting import eventually, soon, within


@pytest.fixture
def cell(database: Database, open_cell: OpenCell) -> Cell:
    return open_cell(database.server.url)


async def test_an_undisputed_lock_needs_one_connection(cell: Cell, database: Database) -> None:
    client = cell.client()
    for _ in range(3):
        await cell.run((await cell.run(client.lock(cell.name).acquire)).release)
    assert await cell.run(client.lock(cell.name).try_acquire)
    assert await cell.run(client.lock(cell.name).try_acquire) is None
    assert database.connections() == 1
    assert database.listening() == []


async def test_one_listener_for_all_waiters(cell: Cell, database: Database) -> None:
    client = cell.client()
    leases = [await cell.run(client.lock(f"{cell.name}:{n}").acquire) for n in range(10)]
    waiters = [cell.actor().start(client.lock(f"{cell.name}:{n}").acquire) for n in range(10)]
    for n in range(10):
        await queued(cell, client, 1, f"{cell.name}:{n}")
    assert len(await soon(database.listening, "the listener")) == 1
    for lease in leases:
        await cell.run(lease.release)
    await asyncio.gather(*waiters)


async def test_five_hundred_tasks_wait(database: Database) -> None:
    async with fencelock.AsyncClient(database.server.url) as client:
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
            await soon(all_wait, "all to wait")
        assert database.connections() <= 9, "eight for requests, one to listen"
        await first.release()
        await asyncio.wait_for(asyncio.gather(*turns), 100)
        assert fences == sorted(set(fences))


def test_threads_wait(database: Database) -> None:
    with fencelock.Client(database.server.url) as client:
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
        assert database.connections() <= 9
        assert threading.active_count() <= before + len(threads) + 2, "no thread per waiter"
        first.release()
        for thread in threads:
            thread.join(60)
        assert fences == sorted(set(fences))
        assert len(fences) == 100


async def test_the_listener_ends_without_waiters(
    cell: Cell, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fencelock.engines.sql.listener.Listener.IDLE_TIMEOUT", 0.2)
    client = cell.client()
    for _ in range(2):
        lease = await cell.run(client.lock(cell.name).acquire)
        waiter = cell.actor().start(client.lock(cell.name).acquire)
        await queued(cell, client, 1)
        await soon(lambda: len(database.listening()) == 1, "the listener")
        await cell.run(lease.release)
        await cell.run((await waiter).release)
        await soon(lambda: client._context.engine._listener._task is None, "the listener to retire")
        await soon(lambda: database.listening() == [], "its connection to be closed")


@pytest.fixture
def proxy(database: Database) -> Iterator[TcpProxy]:
    """A proxy that does not count replies: it can do that for RESP only."""
    with TcpProxy(database.server.port, lambda: lambda _: 0) as proxy:
        yield proxy


def unreadable(piece: bytes) -> bytes:
    """The same length, but the digit behind each space is damaged."""
    return re.sub(rb"(?<= )[0-9]", b"\xff", piece)


@pytest.mark.parametrize("harm", [garbled, unreadable])
async def test_a_damaged_wake_up_stops_no_waiter(
    database: Database,
    open_cell: OpenCell,
    proxy: TcpProxy,
    harm: Harm,
) -> None:
    """The waiter of that wake-up gets the lock, and so do later waiters."""
    port = database.server.port
    cell = open_cell(database.server.url.replace(f":{port}/", f":{proxy.port}/"))
    client, other = cell.client(), open_cell(database.server.url).client()
    lease = await cell.run(other.lock(cell.name).acquire)
    waiter = cell.actor().start(client.lock(cell.name, ttl=60).acquire)
    await queued(cell, other, 1)
    await answered(client, 1)
    await soon(database.listening, "the listener")
    damaged = proxy.damage(kept_by(client)[0].ticket.id.encode(), harm)
    await cell.run(lease.release)
    second = await within(waiter)
    assert damaged.is_set()
    waiter = cell.actor().start(client.lock(cell.name, ttl=60).acquire)
    await queued(cell, other, 1)
    await soon(database.listening, "the listener, or another one")
    await cell.run(second.release)
    assert (await within(waiter)).fence > second.fence


async def test_a_small_pool_is_shared(database: Database, face: str) -> None:
    cell = Cell(database.name, face, database.server.url + "?connections=1")
    client = cell.client()

    async def contend(n: int) -> None:
        actor = cell.actor()
        for _ in range(5):
            lease = await actor.do(client.lock(f"{cell.name}:{n % 3}").acquire)
            await actor.do(lease.release)

    await asyncio.gather(*(contend(n) for n in range(9)))
    assert database.connections() <= 2
    await cell.close()
