"""The connection is cut after a request was applied. It is neither lost nor applied twice."""

from collections.abc import Callable

import pytest

import fencelock
from tests.conformance.cells import Cell, OpenCell, queued
from tests.engines.etcd import server_state
from tests.proxy import TcpProxy
from tests.servers import HOST
from tests.servers_etcd import EtcdCluster
from tests.waiting import soon


@pytest.fixture
def proxy(etcd_cluster: EtcdCluster, grpc_proxy: Callable[[int], TcpProxy]) -> TcpProxy:
    return grpc_proxy(etcd_cluster.members[0].port)


@pytest.fixture
def cell(etcd_cluster: EtcdCluster, proxy: TcpProxy, open_cell: OpenCell) -> Cell:
    """The first server is behind the proxy, and there is a second one."""
    return open_cell(f"etcd://{HOST}:{proxy.port},{etcd_cluster.members[1].address}")


async def connected(cell: Cell) -> fencelock.Client:
    client: fencelock.Client = cell.client()
    lease = await cell.run(lambda: client.lock(cell.name + ":other").acquire())
    await cell.run(lease.release)
    return client


@pytest.mark.parametrize("method", ["acquire", "try_acquire"])
async def test_enter(cell: Cell, etcd_cluster: EtcdCluster, proxy: TcpProxy, method: str) -> None:
    client = await connected(cell)
    cut = proxy.cut_after_request()
    lease = await cell.run(lambda: getattr(client.lock(cell.name), method)())
    assert cut.is_set()
    assert list(server_state.tickets(etcd_cluster, cell.name)) == [lease.id]
    assert not lease.abandoned
    await cell.run(lease.release)
    assert server_state.of(etcd_cluster, cell.name) == []


async def test_enter_as_a_waiter(cell: Cell, etcd_cluster: EtcdCluster, proxy: TcpProxy) -> None:
    client, other = await connected(cell), cell.client()
    holder = await cell.run(lambda: other.lock(cell.name).acquire())
    cut = proxy.cut_after_request()
    waiter = cell.actor().start(lambda: client.lock(cell.name).acquire())
    await soon(cut.is_set, "the cut")
    await queued(cell, other, 1)
    fence = (await cell.run(lambda: other.inspect(cell.name))).waiters[0].fence
    await cell.run(holder.release)
    lease = await waiter
    assert lease.fence == fence, "its place in the queue is the one it took at first"
    assert not lease.abandoned
    assert len(server_state.tickets(etcd_cluster, cell.name)) == 1


async def test_renew(cell: Cell, proxy: TcpProxy) -> None:
    client = await connected(cell)
    lease = await cell.run(lambda: client.lock(cell.name).acquire())
    cut = proxy.cut_after_request()
    await cell.run(lease.renew)
    assert cut.is_set()
    lease.check()
    await cell.run(lease.release)


async def test_leave(cell: Cell, etcd_cluster: EtcdCluster, proxy: TcpProxy) -> None:
    client = await connected(cell)
    lease = await cell.run(lambda: client.lock(cell.name).acquire())
    cut = proxy.cut_after_request()
    await cell.run(lease.release)  # no LeaseLost: it was ours until then
    assert cut.is_set()
    assert server_state.of(etcd_cluster, cell.name) == []
    assert lease.state is fencelock.LeaseState.RELEASED


async def test_the_grant_of_a_lease(cell: Cell, etcd_cluster: EtcdCluster, proxy: TcpProxy) -> None:
    before = server_state.leases(etcd_cluster)
    client = cell.client()
    cut = proxy.cut_after_request()  # the first thing that a client asks for
    lease = await cell.run(lambda: client.lock(cell.name).acquire())
    assert cut.is_set()
    assert len(server_state.leases(etcd_cluster) - before) == 1
    await cell.run(lease.release)
    await cell.run(client.close)
    assert server_state.leases(etcd_cluster) <= before


async def test_a_server_that_does_not_answer(
    cell: Cell, etcd_cluster: EtcdCluster, proxy: TcpProxy
) -> None:
    """Applied but never answered: the next server says what became of it."""
    client = await connected(cell)
    proxy.mute()
    lease = await cell.run(lambda: client.lock(cell.name).acquire())
    assert len(server_state.tickets(etcd_cluster, cell.name)) == 1
    await cell.run(lease.release)
    assert server_state.of(etcd_cluster, cell.name) == []


async def test_only_one_server_and_it_hangs(
    proxy: TcpProxy, etcd_cluster: EtcdCluster, open_cell: OpenCell
) -> None:
    cell = open_cell(f"etcd://{HOST}:{proxy.port}")
    client = await connected(cell)
    proxy.mute()
    with pytest.raises(fencelock.EngineError, match="no answer") as caught:
        await cell.run(lambda: client.lock(cell.name).acquire())
    assert caught.value.outcome == "unknown"
    assert caught.value.name == cell.name
    proxy.heal()
    await soon(lambda: not server_state.of(etcd_cluster, cell.name), "the ticket to be taken back")
