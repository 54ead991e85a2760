"""Who waits is woken by the release itself; many who wait need few connections."""

import asyncio
import threading
import time

import pytest

import holdfast
from tests.conformance.cells import Cell, OpenCell, queued
from tests.engines.mysql.seeing import connections, listening
from tests.servers_mysql import DATABASE, MysqlServer
from tests.waiting import eventually, soon


async def test_an_undisputed_lock_needs_one_connection(cell: Cell, server: MysqlServer) -> None:
    client = cell.client()
    for _ in range(3):
        await cell.run((await cell.run(client.lock(cell.name).acquire)).release)
    assert await cell.run(client.lock(cell.name).try_acquire)
    assert await cell.run(client.lock(cell.name).try_acquire) is None
    assert connections(server) == 1


async def test_one_listener_for_all_who_wait(cell: Cell, server: MysqlServer) -> None:
    client = cell.client()
    leases = [await cell.run(client.lock(f"{cell.name}:{n}").acquire) for n in range(10)]
    waiters = [cell.actor().start(client.lock(f"{cell.name}:{n}").acquire) for n in range(10)]
    for n in range(10):
        await queued(cell, client, 1, f"{cell.name}:{n}")
    assert len(await soon(lambda: listening(server), "the listener")) == 1
    for lease in leases:
        await cell.run(lease.release)
    await asyncio.gather(*waiters)


async def test_the_release_itself_wakes(
    cell: Cell, server: MysqlServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server would sleep for a minute, and renewals are 20 s apart: only the bell can do it."""
    monkeypatch.setattr("holdfast.engines.mysql.ears._SLEEP", 60.0)
    client, other = cell.client(), cell.client()
    listeners = set[int]()
    for _ in range(5):
        lease = await cell.run(other.lock(cell.name).acquire)
        waiter = cell.actor().start(client.lock(cell.name, ttl=60).acquire)
        await queued(cell, other, 1)
        listeners |= set(await soon(lambda: listening(server), "the listener"))
        await cell.run(lease.release)
        heir = await asyncio.wait_for(waiter, 10)
        assert heir.fence > lease.fence
        await cell.run(heir.release)
    assert len(listeners) == 1, "a bell does not cost the connection"


async def test_one_that_stood_behind_a_leaver_looks_again(
    cell: Cell, server: MysqlServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It stands behind another one now, and should look again when that one expires."""
    monkeypatch.setattr("holdfast.engines.mysql.ears._SLEEP", 60.0)
    client = cell.client()
    await cell.run(client.lock(cell.name, ttl=60).acquire)
    leaver = cell.actor().start(lambda: client.lock(cell.name, ttl=60).acquire(timeout=2))
    await queued(cell, client, 1)
    waiter = cell.actor().start(lambda: client.lock(cell.name, ttl=60).acquire())
    await queued(cell, client, 2)
    server.execute("UPDATE holdfast_names SET expires = expires - 55000000")  # it will die soon
    with pytest.raises(holdfast.LockTimeout):
        await leaver
    assert (await asyncio.wait_for(waiter, 15)).abandoned


async def test_another_users_release_is_noticed(server: MysqlServer, open_cell: OpenCell) -> None:
    """One user may not end another one's statements: then one looks more often."""
    server.execute("CREATE OR REPLACE USER other IDENTIFIED BY 'other'")
    server.execute(f"GRANT ALL ON {DATABASE}.* TO other")
    cell, theirs = open_cell(server.url), open_cell(server.url_of("other", "other"))
    client, other = cell.client(), theirs.client()
    for _ in range(3):
        lease = await cell.run(other.lock(cell.name).acquire)
        waiter = cell.actor().start(client.lock(cell.name, ttl=60).acquire)
        await queued(cell, other, 1)
        await cell.run(lease.release)
        heir = await asyncio.wait_for(waiter, 10)
        await cell.run(heir.release)


async def test_five_hundred_tasks_wait(server: MysqlServer) -> None:
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
        await asyncio.wait_for(asyncio.gather(*turns), 100)
        assert fences == sorted(set(fences))


def test_threads_wait(server: MysqlServer) -> None:
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
    cell: Cell, server: MysqlServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("holdfast.engines.mysql.ears._IDLE", 0.2)
    client = cell.client()
    for _ in range(2):
        lease = await cell.run(client.lock(cell.name).acquire)
        waiter = cell.actor().start(client.lock(cell.name).acquire)
        await queued(cell, client, 1)
        await soon(lambda: len(listening(server)) == 1, "the listener")
        await cell.run(lease.release)
        await cell.run((await waiter).release)
        await soon(lambda: client._engine._ears._task is None, "the listener to hang up")


async def test_a_wake_up_that_is_lost(cell: Cell, server: MysqlServer) -> None:
    """The server does not sleep for long."""
    client, other = cell.client(), cell.client()
    lease = await cell.run(other.lock(cell.name).acquire)
    waiter = cell.actor().start(client.lock(cell.name, ttl=60).acquire)
    await queued(cell, other, 1)
    server.execute("UPDATE holdfast_waiters SET channel = 'nowhere'")
    started = time.monotonic()
    await cell.run(lease.release)
    assert (await asyncio.wait_for(waiter, 10)).fence > lease.fence
    assert time.monotonic() - started < 8


async def test_a_small_pool_is_shared(server: MysqlServer, face: str) -> None:
    cell = Cell("mysql", face, server.url + "?connections=1")
    client = cell.client()

    async def contend(n: int) -> None:
        actor = cell.actor()
        for _ in range(5):
            lease = await actor.do(client.lock(f"{cell.name}:{n % 3}").acquire)
            await actor.do(lease.release)

    await asyncio.gather(*(contend(n) for n in range(9)))
    assert connections(server) <= 2
    await cell.close()
