"""The master moves: holders and waiters find it again by themselves."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
import redis

import fencelock
from tests.conformance.cells import Cell, OpenCell, queued
from tests.engines.redis.impostors import Impostor, silence, stale_sentinel
from tests.engines.redis.server_state import renewed, tickets
from tests.proxy import TcpProxy
from tests.servers import HOST, RedisFactory, RedisServer, SentinelSet, free_port
from tests.waiting import eventually, soon, within


@pytest.fixture
def primary(redis_sentinels: SentinelSet) -> RedisServer:
    primary = eventually(redis_sentinels.primary, "the sentinels to agree")
    assert primary is not None
    return primary


async def contended(cell: Cell, client: Any, primary: RedisServer) -> tuple[Any, Any]:
    """A lease and a waiter, known to the replica too."""
    lease = await cell.run(lambda: client.lock(cell.name, ttl=90).acquire())
    waiter = cell.actor().start(lambda: client.lock(cell.name, ttl=90).acquire())
    await queued(cell, client, 1)
    assert await asyncio.to_thread(primary.execute, "WAIT", 1, 5000) == 1
    return lease, waiter


async def test_a_failover_that_was_ordered(
    redis_sentinels: SentinelSet, primary: RedisServer, open_cell: OpenCell
) -> None:
    cell = open_cell(redis_sentinels.url)
    client = cell.client()
    lease, waiter = await contended(cell, client, primary)
    places = tickets(primary, cell.name)
    new = await asyncio.to_thread(redis_sentinels.failover)
    await soon(lambda: _stepped_down(primary), "the old one to step down")
    await renewed(cell, lease)
    assert tickets(new, cell.name) == places
    assert not waiter.done()
    await cell.run(lease.release)
    following = await within(waiter)
    assert [following.id] == places[1:]
    assert following.fence > lease.fence
    assert tickets(new, cell.name) == places[1:]


def _stepped_down(server: RedisServer) -> bool:
    try:
        return bool(server.info("replication")["role"] == "slave")
    except redis.ConnectionError:  # it cuts all connections when it does
        return False


@pytest.mark.slow
@pytest.mark.parametrize("fault", [RedisServer.kill, RedisServer.freeze])
async def test_the_master_fails(
    redis_sentinels: SentinelSet,
    primary: RedisServer,
    open_cell: OpenCell,
    fault: Callable[[RedisServer], None],
) -> None:
    cell = open_cell(redis_sentinels.url)
    client = cell.client()
    lease, waiter = await contended(cell, client, primary)
    fault(primary)
    await renewed(cell, lease, timeout=40)  # sentinels that don't agree at once take their time
    assert lease.state is fencelock.LeaseState.HELD
    assert not waiter.done()
    await cell.run(lease.release)
    following = await within(waiter)
    assert following.fence > lease.fence
    new = next(server for server in redis_sentinels.servers if server is not primary)
    assert tickets(new, cell.name) == [following.id]


async def test_what_sentinels_may_answer(
    redis_sentinels: SentinelSet, primary: RedisServer, open_cell: OpenCell
) -> None:
    good = redis_sentinels.sentinels[0].address
    closed = f"{HOST}:{free_port()}"
    with Impostor(silence) as impostor:
        # One that is not there and one that hangs do no harm as long as another one answers.
        hanging = f"{HOST}:{impostor.port}"
        cell = open_cell(f"redis+sentinel://{closed},{hanging},{good}/{redis_sentinels.name}/0")
        client = cell.client()
        lease = await cell.run(lambda: client.lock(cell.name).acquire())
        assert tickets(primary, cell.name) == [lease.id]
    for url, message in (
        (f"redis+sentinel://{good}/nobody", f"{good}: does not know it"),
        (f"redis+sentinel://{closed}/{redis_sentinels.name}", f"can't connect to {closed}"),
    ):
        cell = open_cell(url)
        client = cell.client()
        with pytest.raises(fencelock.EngineError) as caught:
            await cell.run(client.lock("x").acquire)
        assert "no Sentinel could tell where the master is" in str(caught.value)
        assert message in str(caught.value)
        assert caught.value.outcome == "not applied"


async def test_a_sentinel_that_has_not_heard_of_the_failover(
    redis_sentinels: SentinelSet, primary: RedisServer, open_cell: OpenCell
) -> None:
    """It names a master that is not there any more, and it is asked first."""
    good = redis_sentinels.sentinels[0].address
    with Impostor(stale_sentinel(free_port())) as stale:
        url = f"redis+sentinel://{HOST}:{stale.port},{good}/{redis_sentinels.name}"
        cell = open_cell(url)
        client = cell.client()
        lease = await cell.run(lambda: client.lock(cell.name).acquire())
        assert tickets(primary, cell.name) == [lease.id]
        await cell.run(lease.release)


async def test_what_a_failover_takes_back_is_lost(
    redis_server: RedisFactory, tcp_proxy: Callable[[int], TcpProxy], open_cell: OpenCell
) -> None:
    """The replica never heard of the release: there the next one still waits, and does not hold."""
    primary = redis_server()
    replica = redis_server(replicaof=f"{HOST} {primary.port}")
    replica.wait_for_sync()
    proxy = tcp_proxy(primary.port)
    cell = open_cell(f"redis://{HOST}:{proxy.port}")
    client = cell.client()
    lease, waiter = await contended(cell, client, primary)
    replica.execute("REPLICAOF", "NO", "ONE")
    await cell.run(lease.release)
    following = await within(waiter)
    following.check()
    proxy.target_port = replica.port
    proxy.cut()
    with pytest.raises(fencelock.LeaseLost):
        await renewed(cell, following)
    assert following.state is fencelock.LeaseState.LOST
    await soon(lambda: following.id not in tickets(replica, cell.name), "it to leave the queue")
