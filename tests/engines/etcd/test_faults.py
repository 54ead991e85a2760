"""Servers that are killed, frozen and started again: what goes on, what is lost, and which error says so."""

import time
from collections.abc import Callable
from typing import Any

import pytest

import fencelock
from tests.conformance.cells import Cell, OpenCell, answered, queued
from tests.engines.etcd import server_state
from tests.engines.etcd.soak import soak
from tests.servers_etcd import EtcdCluster, EtcdServer
from tests.waiting import PATIENCE, eventually, soon, within


def named_first(cluster: EtcdCluster, member: EtcdServer | None) -> str:
    """A URL that names this member first, so that it is asked first."""
    assert member is not None
    others = [each.address for each in cluster.members if each is not member]
    return "etcd://" + ",".join([member.address, *others])


@pytest.mark.parametrize(
    ("who", "harm", "face"),
    [
        ("leader", "kill", "sync"),
        ("leader", "freeze", "async"),
        ("follower", "kill", "async"),
        ("follower", "freeze", "sync"),
    ],
    indirect=["face"],
)
async def test_one_server_less(
    etcd_private: EtcdCluster, open_cell: OpenCell, who: str, harm: str
) -> None:
    """The server that the client talks to. Leases live on, waiters are woken, newcomers are served."""
    cluster = etcd_private
    leader = eventually(cluster.leader, "a leader")
    member = leader if who == "leader" else cluster.followers()[0]
    cell = open_cell(named_first(cluster, member))
    client, other = cell.client(), cell.client()
    lease = await cell.run(lambda: client.lock(cell.name, ttl=9).acquire())
    waiter = cell.actor().start(lambda: other.lock(cell.name, ttl=30).acquire())
    await queued(cell, client, 1)
    await soon(lambda: server_state.watchers(cluster) == 2, "the waiter to listen")
    assert member is not None
    getattr(member, harm)()
    try:
        # Each of these has 2 seconds, within which the client leaves the frozen server and finds a leader.
        await soon(lambda: _done(cell, lambda: lease.renew()), "a renewal")
        assert lease.state is fencelock.LeaseState.HELD
        await soon(lambda: _done(cell, lambda: lease.release()), "the release")
        second = await within(waiter)  # long before its renewal would tell it
        assert second.fence > lease.fence
        assert await cell.run(lambda: client.lock(cell.name + ":new").try_acquire())
    finally:
        member.thaw() if harm == "freeze" else member.start()
    await cell.run(second.release)


async def _done(cell: Cell, act: Callable[[], Any]) -> bool:
    try:
        await cell.run(act)
    except fencelock.EngineError:
        return False
    return True


async def test_a_frozen_server_is_left_within_about_a_second(
    etcd_private: EtcdCluster, open_cell: OpenCell
) -> None:
    member = etcd_private.followers()[0]
    cell = open_cell(named_first(etcd_private, member))
    client = cell.client()
    first = await cell.run(lambda: client.lock(cell.name).acquire())
    with etcd_private.frozen(member):
        start = time.monotonic()
        second = await cell.run(lambda: client.lock(cell.name + ":2").acquire())
        assert time.monotonic() - start >= 0.9, "it was asked first"
        assert member.address != client._context.engine._cluster.node.address
        for _ in range(5):  # and not asked again
            await cell.run(lambda: client.inspect(cell.name))
        await cell.run(first.release)
        await cell.run(second.release)


async def test_a_waiter_leaves_a_frozen_server_by_itself(
    etcd_private: EtcdCluster, open_cell: OpenCell
) -> None:
    """No other request is sent: the client notices that the stream is silent."""
    member = etcd_private.followers()[0]
    cell = open_cell(named_first(etcd_private, member))
    elsewhere = open_cell(etcd_private.url.replace(f"{member.address},", ""))
    holder, client = elsewhere.client(), cell.client()
    lease = await cell.run(lambda: holder.lock(cell.name, ttl=300).acquire())
    waiter = cell.actor().start(lambda: client.lock(cell.name, ttl=300).acquire())
    await queued(cell, holder, 1)
    await soon(lambda: server_state.watchers(etcd_private) == 2, "the waiter to listen")
    with etcd_private.frozen(member):
        await cell.run(lease.release)
        second = await within(waiter)  # its own renewals are 100 s apart
    assert second.fence > lease.fence


@pytest.mark.slow
async def test_two_servers_less(etcd_private: EtcdCluster, open_cell: OpenCell) -> None:
    cell = open_cell(etcd_private.url)
    client, other = cell.client(), cell.client()
    holder = cell.actor()
    lease = await holder.do(lambda: client.lock(cell.name, ttl=4).acquire())
    down = etcd_private.members[:2]
    for member in down:
        member.kill()
    start = time.monotonic()
    with pytest.raises(fencelock.EngineError) as caught:
        await cell.run(lambda: other.lock(cell.name + ":other").acquire())
    assert time.monotonic() - start < 60, "reported, not hung"
    said = str(caught.value)  # by the client, or by the server that is left
    assert any(words in said for words in ("majority", "no answer", "deadline exceeded"))
    await soon(lambda: lease.state is fencelock.LeaseState.SUSPENDED, "the suspension")
    lease.check()
    assert await holder.do(lambda: lease.lost.wait(PATIENCE))
    with pytest.raises(fencelock.LeaseLost):
        lease.check()
    for member in down:
        member.launch()

    async def usable() -> Any:
        try:
            return await cell.run(lambda: other.lock(cell.name).try_acquire())
        except fencelock.EngineError:
            return None

    again = await soon(usable, "everything to go on by itself")
    assert again.fence > lease.fence


@pytest.mark.slow
async def test_fences_grow_over_restarts_of_all(
    etcd_private: EtcdCluster, open_cell: OpenCell
) -> None:
    cell = open_cell(etcd_private.url)
    fences: list[int] = []

    async def take() -> None:
        client = cell.client()
        for _ in range(3):
            lease = await cell.run(lambda: client.lock(cell.name).acquire())
            fences.append(lease.fence)
            await cell.run(lease.release)

    await take()
    for member in etcd_private.members:  # one after the other: leaders change
        member.kill()
        member.start()
        eventually(etcd_private.leader, "a leader")
        await soon(lambda: _done(cell, lambda: cell.client().inspect(cell.name)), "answers")
        await take()
    for member in etcd_private.members:  # all at once
        member.kill()
    for member in etcd_private.members:
        member.launch()
    for member in etcd_private.members:
        eventually(member.ready, "the member")
    await take()
    assert fences == sorted(set(fences))


@pytest.mark.slow
async def test_waiting_while_all_are_restarted(
    etcd_private: EtcdCluster, open_cell: OpenCell
) -> None:
    cell = open_cell(etcd_private.url)
    client, other = cell.client(), cell.client()
    lease = await cell.run(lambda: client.lock(cell.name, ttl=60).acquire())
    waiter = cell.actor().start(lambda: other.lock(cell.name, ttl=60).acquire())
    await answered(other, 1)
    for member in etcd_private.members:
        member.kill()
    for member in etcd_private.members:
        member.launch()
    for member in etcd_private.members:
        eventually(member.ready, "the member")
    await soon(lambda: _done(cell, lambda: lease.release()), "the release")
    assert (await within(waiter)).fence > lease.fence


@pytest.mark.slow
def test_processes_and_servers_that_die(etcd_private: EtcdCluster) -> None:
    """The short form of `python -m tests.engines.etcd.soak`."""
    report = soak(etcd_private, etcd_private.folder, seconds=4, workers=2)
    print(report)
    report.check()
