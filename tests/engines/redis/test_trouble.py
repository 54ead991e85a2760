"""A server that refuses, is full, is busy, hangs, or hangs up: reported or lived through."""

import asyncio
import shutil
import socket
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import pytest
import redis

import fencelock
from fencelock.engines.redis.keys import keys_of
from fencelock.engines.resp.blocking import _CHECK_AFTER_IDLE
from tests.conformance.cells import Cell, OpenCell, answered, queued
from tests.engines.redis.server_state import (
    connected,
    empty,
    held,
    link_list,
    links,
    renewed,
    tickets,
)
from tests.servers import HOST, RedisFactory, RedisServer
from tests.waiting import soon, within


@pytest.fixture
def server(redis_server: RedisFactory) -> RedisServer:
    return redis_server()


@pytest.fixture
def cell(server: RedisServer, open_cell: OpenCell) -> Cell:
    return open_cell(server.url)


async def refusal(cell: Cell, act: Callable[[], Any]) -> fencelock.EngineError:
    with pytest.raises(fencelock.EngineError) as caught:
        await cell.run(act)
    return caught.value


async def test_a_master_becomes_a_replica(
    cell: Cell, server: RedisServer, redis_server: RedisFactory
) -> None:
    client = cell.client()
    lease = await cell.run(lambda: client.lock(cell.name, ttl=20).acquire())
    waiter = cell.actor().start(lambda: client.lock(cell.name, ttl=20).acquire())
    await queued(cell, client, 1)
    replica = redis_server(replicaof=f"{HOST} {server.port}")
    replica.wait_for_sync()
    server.execute("REPLICAOF", HOST, replica.port)  # neither takes writes now
    for act in (
        lambda: client.lock(f"{cell.name}:new").acquire(),
        lambda: client.inspect(cell.name),
        lease.renew,
    ):
        error = await refusal(cell, act)
        assert "READONLY" in str(error)
        assert "this is a replica" in str(error)
        assert error.outcome == "not applied"
    assert not waiter.done(), "it waits for better times"
    server.execute("REPLICAOF", "NO", "ONE")
    await renewed(cell, lease)
    await cell.run(lease.release)
    assert (await within(waiter)).fence > lease.fence


async def test_the_memory_is_full(cell: Cell, server: RedisServer) -> None:
    client = cell.client()
    lease = await cell.run(lambda: client.lock(cell.name).acquire())
    waiter = cell.actor().start(lambda: client.lock(cell.name).acquire())
    await queued(cell, client, 1)
    server.config(maxmemory=1)
    error = await refusal(cell, lambda: client.lock(f"{cell.name}:new").acquire())
    assert "OOM" in str(error)
    assert "raise maxmemory" in str(error)
    assert error.outcome == "not applied"
    assert tickets(server, f"{cell.name}:new") == []
    # Holders and waiters keep what they have, and hand it over.
    await cell.run(lease.renew)
    assert (await cell.run(lambda: client.inspect(cell.name))).waiting == 1
    assert await cell.run(lambda: client.names(cell.name)) == [cell.name]
    await cell.run(lease.release)
    following = await within(waiter)
    await cell.run(following.renew)
    assert await cell.run(lambda: client.break_lock(cell.name)) is True
    server.config(maxmemory=0)
    await cell.run(lambda: client.lock(cell.name).acquire())


@pytest.mark.parametrize("lost_key", [0, 1, 2], ids=["record", "queue", "waiters"])
async def test_a_server_that_evicts_half_of_a_lock(
    cell: Cell, server: RedisServer, lost_key: int
) -> None:
    """maxmemory-policy must be noeviction; if it is not, we lose locks, but never our footing."""
    client = cell.client()
    lease = await cell.run(lambda: client.lock(cell.name, ttl=3).acquire())
    waiter = cell.actor().start(lambda: client.lock(cell.name, ttl=3).acquire())
    await queued(cell, client, 1)
    server.execute("DEL", keys_of(cell.name)[lost_key])
    if lost_key > 0:  # the holder's part is still there
        await cell.run(lease.renew)
        await cell.run(lease.release)
    following = await within(waiter)
    assert following.fence > lease.fence
    if lost_key == 0:
        with pytest.raises(fencelock.LeaseLost):
            await cell.run(lease.release)
    await cell.run(following.renew)
    assert tickets(server, cell.name) == [following.id]
    await cell.run(following.release)
    left = server.execute("PTTL", keys_of(cell.name)[0])
    assert 0 < left <= 86_400_000, "nothing stays for ever"


async def test_the_disk_can_not_be_written(redis_server: RedisFactory, open_cell: OpenCell) -> None:
    server = redis_server(save="3600 1")
    cell = open_cell(server.url)
    client = cell.client()
    await connected(cell, client)
    shutil.rmtree(server.folder)
    server.execute("BGSAVE")
    await soon(
        lambda: server.info("persistence")["rdb_last_bgsave_status"] == "err", "the failed save"
    )
    error = await refusal(cell, lambda: client.lock(cell.name).acquire())
    assert "MISCONF" in str(error)
    assert "can't write to its disk" in str(error)
    assert error.outcome == "not applied"
    server.config(stop_writes_on_bgsave_error="no")
    await cell.run(lambda: client.lock(cell.name).acquire())


async def test_too_few_replicas(cell: Cell, server: RedisServer) -> None:
    client = cell.client()
    await connected(cell, client)
    server.config(min_replicas_to_write=1)
    error = await refusal(cell, lambda: client.lock(cell.name).acquire())
    assert "NOREPLICAS" in str(error)
    assert error.outcome == "not applied"


async def test_someone_elses_script_runs_and_runs(cell: Cell, server: RedisServer) -> None:
    client = cell.client()
    lease = await cell.run(lambda: client.lock(cell.name, ttl=20).acquire())
    server.config(busy_reply_threshold=20)

    def hog() -> None:
        with server.client() as other, pytest.raises(redis.ResponseError):  # killed
            other.eval("while true do end", 0)

    with ThreadPoolExecutor() as pool:
        running = pool.submit(hog)

        async def busy() -> fencelock.EngineError | None:
            try:
                await cell.run(lambda: client.inspect(cell.name))
            except fencelock.EngineError as error:
                return error
            return None

        try:
            error = await soon(busy, "the server to say that it is busy")
            assert "BUSY" in str(error)
            assert "SCRIPT KILL" in str(error)
            assert error.outcome == "not applied"
            error = await refusal(cell, lambda: client.lock(f"{cell.name}:new").acquire())
            assert error.outcome == "not applied"
        finally:
            server.execute("SCRIPT", "KILL")
            running.result()
    await cell.run(lease.renew)
    await cell.run(lease.release)


async def test_a_frozen_server_is_reported_and_a_late_request_cleans_itself_up(
    cell: Cell, server: RedisServer
) -> None:
    client = cell.client()
    holder = await cell.run(lambda: client.lock(f"{cell.name}:held", ttl=30).acquire())
    server.freeze()
    acquiring = cell.actor().start(lambda: client.lock(cell.name).acquire())
    trying = cell.actor().start(lambda: client.lock(f"{cell.name}:2").try_acquire())
    releasing = cell.actor().start(holder.release)
    outcomes = set()
    for task in (acquiring, trying, releasing):
        with pytest.raises(fencelock.EngineError, match="no answer within 2 s") as caught:
            await within(task)
        outcomes.add(caught.value.outcome)
    assert "unknown" in outcomes, "at least one went to a connection that was open already"
    server.thaw()
    for name in (cell.name, f"{cell.name}:2", f"{cell.name}:held"):
        await empty(server, name)
    await cell.run(lambda: client.lock(cell.name).acquire())


async def test_waiting_while_the_server_is_frozen_for_a_moment(
    cell: Cell, server: RedisServer
) -> None:
    one, other = cell.client(), cell.client()
    lease = await cell.run(lambda: one.lock(cell.name, ttl=20).acquire())
    waiter = cell.actor().start(lambda: other.lock(cell.name, ttl=20).acquire())
    await answered(other, 1)
    places = tickets(server, cell.name)
    server.freeze()
    releasing = cell.actor().start(lease.release)
    await asyncio.sleep(0.3)
    server.thaw()
    await within(releasing)
    following = await within(waiter)
    assert [following.id] == places[1:]


async def test_connections_are_killed_while_idle(cell: Cell, server: RedisServer) -> None:
    client = cell.client()
    lease = await cell.run(lambda: client.lock(cell.name).acquire())
    for act in (lambda: client.inspect(cell.name), lease.renew, lease.release):
        for link in links(server):
            server.execute("CLIENT", "KILL", "ID", link)
        await soon(lambda: not links(server), "the connections to be gone")
        # A link that was used a moment ago is trusted; and the event loop has to hear of it first.
        await asyncio.sleep(_CHECK_AFTER_IDLE + 0.05 if cell.face == "sync" else 0.05)
        await cell.run(act)


def new_links(server: RedisServer, before: set[str]) -> set[str]:
    return set(links(server)) - before


async def test_connections_are_killed_while_waiting(cell: Cell, server: RedisServer) -> None:
    client = cell.client()
    lease = await cell.run(lambda: client.lock(cell.name).acquire())
    waiter = cell.actor().start(lambda: client.lock(cell.name).acquire())
    await queued(cell, client, 1)
    places = tickets(server, cell.name)
    for _ in range(3):
        before = set(links(server))
        server.execute("CLIENT", "KILL", "TYPE", "pubsub")
        await soon(partial(new_links, server, before), "the waiter to come back")
    await soon(lambda: tickets(server, cell.name) == places, "the waiter to keep its place")
    await cell.run(lease.release)
    assert [(await within(waiter)).id] == places[1:]


async def test_connections_are_killed_with_a_request_under_way(
    cell: Cell, server: RedisServer
) -> None:
    client = cell.client()
    await connected(cell, client)
    with server.client() as other:
        other.execute_command("CLIENT", "PAUSE", 60_000, "WRITE")
        acquiring = cell.actor().start(lambda: client.lock(cell.name).acquire())
        before = links(server)
        await soon(lambda: _under_way(server), "the request")
        for link in before:
            other.execute_command("CLIENT", "KILL", "ID", link)
        await soon(partial(new_links, server, set(before)), "the second attempt")
        other.execute_command("CLIENT", "UNPAUSE")
    lease = await within(acquiring)
    assert tickets(server, cell.name) == [lease.id]


def _under_way(server: RedisServer) -> bool:
    """Whether a server has read a request of ours and not answered it: it was told to pause."""
    return any(link["cmd"] == "evalsha" and int(link["argv-mem"]) > 0 for link in link_list(server))


async def test_a_server_that_closes_idle_connections(cell: Cell, server: RedisServer) -> None:
    client = cell.client()
    lease = await cell.run(lambda: client.lock(cell.name).acquire())
    server.config(timeout=1)
    with socket.create_connection((HOST, server.port)) as idle:
        assert await asyncio.to_thread(idle.recv, 1) == b"", "others are thrown out"
    await cell.run(lambda: client.inspect(cell.name))
    await cell.run(lease.release)
    await cell.run(lambda: client.lock(cell.name).acquire())


async def test_too_many_clients(cell: Cell, server: RedisServer) -> None:
    client = cell.client()
    with server.client() as other:
        other.ping()
        other.config_set("maxclients", 1)
        error = await refusal(cell, lambda: client.lock(cell.name).acquire())
        assert "max number of clients reached" in str(error)
        assert "raise maxclients" in str(error)
        assert error.outcome == "not applied"
        other.config_set("maxclients", 100)
    await cell.run(lambda: client.lock(cell.name).acquire())


async def test_one_bad_key_does_not_harm_the_other_leases(cell: Cell, server: RedisServer) -> None:
    """Somebody overwrote a lock's key: the leases that are renewed along with it are kept."""
    client = cell.client(ttl=3)
    leases = [await cell.run(client.lock(f"{cell.name}:{number}").acquire) for number in range(5)]
    server.execute("SET", keys_of(f"{cell.name}:2")[0], "not a record")
    spoilt = leases.pop(2)
    error = await refusal(cell, spoilt.renew)
    assert "WRONGTYPE" in str(error)
    assert "another program" in str(error)
    assert error.outcome == "unknown"
    await soon(lambda: spoilt.state is fencelock.LeaseState.LOST, "the spoilt one to be lost")
    for lease in leases:
        await held(lease)
        await cell.run(lease.release)


async def test_the_keys_of_others_are_no_locks(cell: Cell, server: RedisServer) -> None:
    client = cell.client()
    await cell.run(lambda: client.lock(cell.name).acquire())
    server.execute("SET", "fencelock:{someone else's}", "x")
    server.execute("HSET", "fencelock:{another's}", "x", "1")
    with server.client() as other:
        other.set(b"fencelock:{\xff}", "x")
    assert await cell.run(client.names) == [cell.name]
