"""The connection is cut after a request was carried out: nothing is lost, and nothing is done twice."""

import asyncio
from collections.abc import Callable, Iterator

import pytest

import fencelock
from tests.conformance.cells import Cell, OpenCell
from tests.engines.zookeeper.observing import Witness, connected, lost, parked, replies
from tests.proxy import TcpProxy
from tests.servers import HOST
from tests.servers_zookeeper import Ensemble
from tests.waiting import soon, within

# Joining is three requests: a look at the container, the ticket, the listing.
JOINING = (1, 2, 3)


@pytest.fixture
def proxy(zookeeper: Ensemble) -> Iterator[TcpProxy]:
    with TcpProxy(zookeeper.nodes[0].port, replies) as proxy:
        yield proxy


@pytest.fixture
def seen(zookeeper: Ensemble, witness: Callable[[Ensemble], Witness]) -> Witness:
    return witness(zookeeper)


@pytest.fixture
def cell(proxy: TcpProxy, open_cell: OpenCell) -> Cell:
    return open_cell(f"zookeeper://{HOST}:{proxy.port}/tests?session=60")


@pytest.mark.parametrize("reply", JOINING)
async def test_enter(cell: Cell, seen: Witness, proxy: TcpProxy, reply: int) -> None:
    client = cell.client()
    await connected(cell, client)
    cut = proxy.cut_after_request(reply)
    lease = await cell.run(lambda: client.lock(cell.name).acquire())
    assert cut.is_set()
    assert seen.fences(cell.name) == [lease.fence], "one ticket, one fence"
    assert not lease.abandoned
    await cell.run(lease.release)
    assert seen.tickets(cell.name) == []


@pytest.mark.parametrize("reply", JOINING)
async def test_enter_if_free(cell: Cell, seen: Witness, proxy: TcpProxy, reply: int) -> None:
    client = cell.client()
    await connected(cell, client)
    cut = proxy.cut_after_request(reply)
    lease = await cell.run(lambda: client.lock(cell.name).try_acquire())
    assert cut.is_set()
    assert lease is not None
    assert seen.fences(cell.name) == [lease.fence]


@pytest.mark.parametrize("reply", [*JOINING, 4])
async def test_enter_as_a_waiter(cell: Cell, seen: Witness, proxy: TcpProxy, reply: int) -> None:
    client = cell.client()
    holder = await cell.run(lambda: client.lock(cell.name).acquire())
    cut = proxy.cut_after_request(reply)
    waiter = cell.actor().start(lambda: client.lock(cell.name).acquire())
    await soon(cut.is_set, "the cut")
    await parked(client)
    _, fence = seen.fences(cell.name)
    await cell.run(holder.release)
    lease = await within(waiter)
    assert lease.fence == fence, "its place in the queue is the one it took at first"
    assert not lease.abandoned
    assert len(seen.tickets(cell.name)) == 1


async def test_enter_without_an_answer(cell: Cell, seen: Witness, proxy: TcpProxy) -> None:
    client = cell.client()
    await connected(cell, client)
    proxy.mute()
    with pytest.raises(fencelock.EngineError) as caught:
        await cell.run(lambda: client.lock(cell.name).acquire())
    assert caught.value.outcome == "unknown"
    assert caught.value.name == cell.name
    proxy.heal()
    await soon(lambda: seen.tickets(cell.name) == [], "the clean-up")


async def test_a_request_that_was_never_sent_was_not_applied(cell: Cell, proxy: TcpProxy) -> None:
    client = cell.client()
    await connected(cell, client)
    proxy.refuse()
    connection = client._context.engine._transport._connection
    await soon(lambda: connection.server is None, "the cut to be noticed")
    with pytest.raises(fencelock.EngineError, match="can't connect") as caught:
        await cell.run(lambda: client.lock(cell.name).acquire())
    assert caught.value.outcome == "not applied"
    proxy.heal()
    assert await cell.run(lambda: client.lock(cell.name).acquire(timeout=10))


async def test_renew_in_the_background(cell: Cell, seen: Witness, proxy: TcpProxy) -> None:
    client = cell.client()
    lease = await cell.run(lambda: client.lock(cell.name, ttl=6).acquire())
    fence = lease.fence
    cut = proxy.cut_after_request()
    await soon(cut.is_set, "the renewal", timeout=6)
    await soon(lambda: lease.state is fencelock.LeaseState.HELD, "the next renewal")
    assert lease.fence == fence
    assert seen.fences(cell.name) == [fence]
    await cell.run(lease.release)


async def test_renew_by_hand(cell: Cell, seen: Witness, proxy: TcpProxy) -> None:
    client = cell.client()
    lease = await cell.run(lambda: client.lock(cell.name).acquire())
    proxy.cut_after_request()
    with pytest.raises(fencelock.EngineError) as caught:
        await cell.run(lambda: lease.renew(ttl=50))
    assert caught.value.outcome == "unknown"
    lease.check()
    await cell.run(lambda: lease.renew(ttl=50))
    assert seen.fences(cell.name) == [lease.fence]


async def test_a_ticket_that_was_lost_during_an_outage_is_removed_after_it(
    cell: Cell, seen: Witness, proxy: TcpProxy
) -> None:
    """Its session goes on when the servers are back, and so would its ticket, as long as the client lives."""
    client = cell.client()
    lease = await cell.run(lambda: client.lock(cell.name, ttl=0.5).acquire())
    proxy.refuse()
    await lost(lease)
    await asyncio.sleep(3)  # longer than the ttl, and than a request may take
    proxy.heal()
    await soon(lambda: seen.tickets(cell.name) == [], "the clean-up")
    other = cell.client()
    assert (await cell.run(lambda: other.lock(cell.name).try_acquire())).abandoned


async def test_leave(cell: Cell, seen: Witness, proxy: TcpProxy, zookeeper_url: str) -> None:
    client = cell.client()
    lease = await cell.run(lambda: client.lock(cell.name).acquire())
    waiter = cell.actor().start(lambda: client.lock(cell.name).acquire())
    await parked(client)
    cut = proxy.cut_after_request()
    await cell.run(lease.release)
    assert cut.is_set()
    following = await within(waiter)
    assert following.fence > lease.fence
    assert not following.abandoned
    assert seen.fences(cell.name) == [following.fence]
