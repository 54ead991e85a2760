"""The connection is cut after a request was carried out: it was never lost, nor done twice."""

from collections.abc import Callable

import pytest

import fencelock
from tests.conformance.cells import Cell, OpenCell, queued
from tests.engines.redis.server_state import connected, empty, held, record, tickets
from tests.proxy import TcpProxy
from tests.servers import HOST, RedisFactory, RedisServer
from tests.waiting import soon, within

AGAIN = 3
"""The reply to a repeated request is the third on its connection: the first two greet."""


@pytest.fixture
def server(redis_server: RedisFactory) -> RedisServer:
    return redis_server()


@pytest.fixture
def proxy(server: RedisServer, tcp_proxy: Callable[[int], TcpProxy]) -> TcpProxy:
    return tcp_proxy(server.port)


@pytest.fixture
def cell(proxy: TcpProxy, open_cell: OpenCell) -> Cell:
    return open_cell(f"redis://{HOST}:{proxy.port}")


async def test_enter(cell: Cell, server: RedisServer, proxy: TcpProxy) -> None:
    client = cell.client()
    await connected(cell, client)
    cut = proxy.cut_after_request()
    lease = await cell.run(lambda: client.lock(cell.name).acquire())
    assert cut.is_set()
    assert tickets(server, cell.name) == [lease.id]
    assert record(server, cell.name).newest_fence == lease.fence, "one ticket, one fence"
    await cell.run(lease.release)
    assert tickets(server, cell.name) == []


async def test_enter_if_free(cell: Cell, server: RedisServer, proxy: TcpProxy) -> None:
    """A plain SET NX would find itself in the way."""
    client = cell.client()
    await connected(cell, client)
    cut = proxy.cut_after_request()
    lease = await cell.run(lambda: client.lock(cell.name).try_acquire())
    assert cut.is_set()
    assert lease is not None
    assert tickets(server, cell.name) == [lease.id]
    assert record(server, cell.name).newest_fence == lease.fence


async def test_enter_as_a_waiter(cell: Cell, server: RedisServer, proxy: TcpProxy) -> None:
    client = cell.client()
    holder = await cell.run(lambda: client.lock(cell.name).acquire())
    cut = proxy.cut_after_request()
    waiter = cell.actor().start(lambda: client.lock(cell.name).acquire())
    await soon(cut.is_set, "the cut")
    await queued(cell, client, 1)
    fence = record(server, cell.name).newest_fence
    await cell.run(holder.release)
    lease = await within(waiter)
    assert lease.fence == fence, "its place in the queue is the one it took at first"
    assert tickets(server, cell.name) == [lease.id]


async def test_enter_and_its_repetition(cell: Cell, server: RedisServer, proxy: TcpProxy) -> None:
    client = cell.client()
    await connected(cell, client)
    cut = proxy.cut_after_request(1, AGAIN)
    with pytest.raises(fencelock.EngineError) as caught:
        await cell.run(lambda: client.lock(cell.name).acquire())
    assert cut.is_set()
    assert caught.value.outcome == "unknown"
    await empty(server, cell.name)  # long before the ttl
    assert record(server, cell.name).newest_fence, "it was there"


async def test_enter_and_then_nobody_listens(
    cell: Cell, server: RedisServer, proxy: TcpProxy
) -> None:
    client = cell.client()
    await connected(cell, client)
    proxy.mute()
    with pytest.raises(fencelock.EngineError, match="no answer within") as caught:
        await cell.run(lambda: client.lock(cell.name).acquire())
    assert caught.value.outcome == "unknown"
    assert record(server, cell.name).newest_fence, "it was delivered"
    proxy.heal()
    await empty(server, cell.name)


async def test_unknown_stays_unknown(cell: Cell, server: RedisServer, proxy: TcpProxy) -> None:
    """The first request was cut, the second could not even be sent: the first may have arrived."""
    client = cell.client()
    await connected(cell, client)
    server.freeze()
    acquiring = cell.actor().start(lambda: client.lock(cell.name).acquire())
    sent = proxy.bytes_to_server
    await soon(lambda: proxy.bytes_to_server > sent, "the request")
    proxy.refuse()
    with pytest.raises(fencelock.EngineError) as caught:
        await within(acquiring)
    assert caught.value.outcome == "unknown"
    server.thaw()
    proxy.heal()
    await empty(server, cell.name)


@pytest.mark.parametrize("cuts", [(1,), (1, AGAIN)])
async def test_renew_in_the_background(
    cell: Cell, server: RedisServer, proxy: TcpProxy, cuts: tuple[int, ...]
) -> None:
    client = cell.client()
    lease = await cell.run(lambda: client.lock(cell.name, ttl=6).acquire())
    fence, deadline = lease.fence, lease._claim.deadline
    cut = proxy.cut_after_request(*cuts)
    await soon(cut.is_set, "the renewals")
    await soon(lambda: lease._claim.deadline > deadline, "one that is answered")
    await held(lease)
    assert lease.fence == fence
    assert tickets(server, cell.name) == [lease.id]
    await cell.run(lease.release)


async def test_renew_by_hand(cell: Cell, server: RedisServer, proxy: TcpProxy) -> None:
    client = cell.client()
    lease = await cell.run(lambda: client.lock(cell.name).acquire())
    proxy.cut_after_request()
    with pytest.raises(fencelock.EngineError) as caught:
        await cell.run(lambda: lease.renew(ttl=60))
    assert caught.value.outcome == "unknown"
    lease.check()
    await cell.run(lambda: lease.renew(ttl=60))
    assert tickets(server, cell.name) == [lease.id]
    assert record(server, cell.name).newest_fence == lease.fence


async def test_leave(cell: Cell, server: RedisServer, proxy: TcpProxy) -> None:
    client = cell.client()
    lease = await cell.run(lambda: client.lock(cell.name).acquire())
    waiter = cell.actor().start(lambda: client.lock(cell.name).acquire())
    await queued(cell, client, 1)
    cut = proxy.cut_after_request()
    await cell.run(lease.release)
    assert cut.is_set()
    following = await within(waiter)
    assert following.fence > lease.fence
    assert not following.abandoned
    assert tickets(server, cell.name) == [following.id]


async def test_leave_all(cell: Cell, server: RedisServer, proxy: TcpProxy) -> None:
    client = cell.client()
    names = [f"{cell.name}:{letter}" for letter in "abc"]
    leases = await cell.run(client.lock_all(names).acquire)
    cut = proxy.cut_after_request()
    await cell.run(leases.release)
    assert cut.is_set()
    assert [tickets(server, name) for name in names] == [[], [], []]


async def test_leave_and_its_repetition(cell: Cell, server: RedisServer, proxy: TcpProxy) -> None:
    client = cell.client()
    lease = await cell.run(lambda: client.lock(cell.name).acquire())
    cut = proxy.cut_after_request(1, AGAIN)
    with pytest.raises(fencelock.EngineError) as caught:
        await cell.run(lease.release)
    assert cut.is_set()
    assert caught.value.outcome == "unknown"
    assert tickets(server, cell.name) == []
    with pytest.raises(fencelock.LeaseLost):
        lease.check()
