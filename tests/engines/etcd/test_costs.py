"""What an operation costs, counted by the servers."""

import asyncio
from functools import partial
from typing import Any

import pytest

import fencelock
from fencelock.core.ticket import Owner, Ticket
from fencelock.engines.etcd.messages_pb2 import TxnRequest, TxnResponse
from fencelock.engines.registry import open_engine
from fencelock.io.blocking import BlockingIO, run
from fencelock.primitives.waiting import new_id
from tests.conformance.cells import OpenCell, queued
from tests.engines.etcd import server_state
from tests.servers_etcd import EtcdCluster
from tests.waiting import soon, within


async def test_a_pair_is_two_transactions(etcd_cluster: EtcdCluster, open_cell: OpenCell) -> None:
    cell = open_cell(etcd_cluster.url)
    client = cell.client(ttl=600)

    async def pairs(count: int) -> None:
        for _ in range(count):
            lease = await cell.run(lambda: client.lock(cell.name).acquire())
            await cell.run(lease.release)

    await pairs(1)  # grants the leases
    before = server_state.calls(etcd_cluster)
    await pairs(10)
    used = server_state.calls(etcd_cluster) - before
    kept_alive = used.pop("LeaseKeepAlive", 0)  # each 5 seconds
    assert used == {"Txn": 20}
    assert kept_alive <= 1
    assert server_state.of(etcd_cluster, cell.name) == []


async def test_a_lock_that_is_used_often_is_a_single_key(
    etcd_cluster: EtcdCluster, open_cell: OpenCell
) -> None:
    """etcd goes through all keys that ever were in a queue, until it is compacted."""
    cell = open_cell(etcd_cluster.url)
    client = cell.client(ttl=600)
    keys = set()
    for _ in range(10):
        lease = await cell.run(lambda: client.lock(cell.name).acquire())
        keys |= set(server_state.tickets(etcd_cluster, cell.name).values())
        assert await cell.run(lambda: client.lock(cell.name).try_acquire()) is None
        await cell.run(lease.release)
    assert len(keys) <= 2


async def test_a_refused_try_is_one_transaction(
    etcd_cluster: EtcdCluster, open_cell: OpenCell
) -> None:
    cell = open_cell(etcd_cluster.url)
    holder, client = cell.client(ttl=600), cell.client(ttl=600)
    await cell.run(lambda: holder.lock(cell.name).acquire())
    assert await cell.run(lambda: client.lock(cell.name).try_acquire()) is None
    before = server_state.calls(etcd_cluster)
    assert await cell.run(lambda: client.lock(cell.name).try_acquire()) is None
    used = server_state.calls(etcd_cluster) - before
    used.pop("LeaseKeepAlive", 0)
    assert used == {"Txn": 1}


def test_many_renewals_are_few_transactions(etcd_cluster: EtcdCluster) -> None:
    engine = open_engine(etcd_cluster.url, BlockingIO())
    name = f"many:{new_id()}"
    tickets = [Ticket(f"{name}:{n}", new_id(), 30.0, Owner("host", 1)) for n in range(250)]
    for ticket in tickets:
        run(engine.enter(ticket, if_free=False, timeout=30))
    before = server_state.calls(etcd_cluster)
    standings = run(engine.renew(tickets, timeout=30))
    used = server_state.calls(etcd_cluster) - before
    assert [standing.place.name for standing in standings if standing] == ["ADMITTED"] * 250
    assert used.pop("LeaseKeepAlive", 0) <= 1
    assert used == {"Txn": 3}
    for ticket in tickets:
        assert run(engine.leave(ticket, timeout=30))
    run(engine.close())


def test_many_waiting_tickets_of_one_name_are_renewed_together(etcd_cluster: EtcdCluster) -> None:
    engine = open_engine(etcd_cluster.url, BlockingIO())
    name = f"queue:{new_id()}"
    tickets = [Ticket(name, new_id(), 30.0, Owner("host", 1)) for _ in range(150)]
    for ticket in tickets:
        run(engine.enter(ticket, if_free=False, timeout=30))
    before = server_state.calls(etcd_cluster)
    standings = run(engine.renew(tickets, timeout=30))
    used = server_state.calls(etcd_cluster) - before
    places = [standing.place.name for standing in standings if standing]
    assert places == ["ADMITTED"] + ["WAITING"] * 149
    assert used["Txn"] == 2
    for ticket in reversed(tickets):
        assert run(engine.leave(ticket, timeout=30))
    run(engine.close())
    assert server_state.of(etcd_cluster, name) == []


async def test_500_waiters_and_two_events_per_release(etcd_cluster: EtcdCluster) -> None:
    """Two watches for each waiter, one stream for all. A release wakes the next ticket only."""
    name = f"crowd:{new_id()}"
    streams = etcd_cluster.total("etcd_debugging_mvcc_watch_stream_total")
    async with fencelock.AsyncClient(etcd_cluster.url, ttl=600) as client:
        gate = await client.lock(name).acquire()
        running: list[Any] = []

        async def contend() -> None:
            running.append(await client.lock(name).acquire())

        async def wait(count: int) -> bool:
            return (await client.inspect(name, limit=0)).waiting == count

        tasks: list[asyncio.Task[None]] = []
        for joined in range(50, 501, 50):  # 500 at once would be too much for three servers here
            tasks += [asyncio.create_task(contend()) for _ in range(50)]
            await soon(partial(wait, joined), f"{joined} waiters")
        await soon(partial(_listening, client, 500), "them to listen")
        assert server_state.watchers(etcd_cluster) == 1_000
        assert etcd_cluster.total("etcd_debugging_mvcc_watch_stream_total") == streams + 1
        before, asked = _events(etcd_cluster), server_state.calls(etcd_cluster)
        hand_offs = 20
        await gate.release()
        for number in range(hand_offs):
            await soon(partial(_longer_than, running, number), "the next holder")
            await running[number].release()
        await soon(partial(_longer_than, running, hand_offs), "the last holder")
        assert len(running) == hand_offs + 1
        expected = before + 1 + 2 * hand_offs  # the first holder has not waited, so it has no watch
        await soon(lambda: _events(etcd_cluster) >= expected, "the events")
        assert _events(etcd_cluster) == expected
        used = server_state.calls(etcd_cluster) - asked
        # Rarely two to make sure: etcd reports an event a moment before it can be read.
        once = 2 * (hand_offs + 1)
        assert once <= used["Txn"] < once + hand_offs, "one to release, one to make sure"
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
        await running[-1].release()
        assert server_state.of(etcd_cluster, name) == []
    await soon(lambda: server_state.watchers(etcd_cluster) == 0, "all watches to be gone")


async def test_a_client_that_waits_no_more_keeps_no_stream(
    etcd_cluster: EtcdCluster, open_cell: OpenCell
) -> None:
    cell = open_cell(etcd_cluster.url)
    client, other = cell.client(ttl=600), cell.client(ttl=600)
    lease = await cell.run(lambda: other.lock(cell.name).acquire())
    waiter = cell.actor().start(lambda: client.lock(cell.name).acquire())
    await queued(cell, other, 1)
    await soon(lambda: server_state.watchers(etcd_cluster) == 2, "the watches")
    await cell.run(lease.release)
    second = await waiter
    await soon(lambda: server_state.watchers(etcd_cluster) == 0, "the watches to be gone")
    await soon(lambda: client._context.engine._listener._task is None, "the stream to be closed")
    waiter = cell.actor().start(lambda: client.lock(cell.name).acquire())
    await queued(cell, other, 1)
    await cell.run(second.release)
    assert (await within(waiter)).fence > second.fence


@pytest.mark.parametrize("lags", [False, True], ids=["up to date", "lagging"])
async def test_to_make_sure_asks_one_server_unless_that_knows_less(
    etcd_cluster: EtcdCluster, open_cell: OpenCell, monkeypatch: pytest.MonkeyPatch, lags: bool
) -> None:
    cell = open_cell(etcd_cluster.url)
    client, other = cell.client(ttl=600), cell.client(ttl=600)
    lease = await cell.run(lambda: other.lock(cell.name).acquire())
    waiter = cell.actor().start(lambda: client.lock(cell.name).acquire())
    await soon(lambda: _listening(client, 1), "the waiter")
    cluster, asked, revisions = client._context.engine._cluster, [], []
    send = cluster.txn

    async def observed(
        request: TxnRequest, until: float, *, repeatable: bool = False
    ) -> TxnResponse:
        answer: TxnResponse = await send(request, until, repeatable=repeatable)
        steps = [*request.success, *request.failure]
        asked.append(all(step.request_range.serializable for step in steps))
        if lags and asked == [True]:
            answer.header.revision -= (
                1  # as if this server did not know yet what the waiter was told
            )
        revisions.append(answer.header.revision)
        return answer

    monkeypatch.setattr(cluster, "txn", observed)
    await cell.run(lease.release)
    assert (await within(waiter)).fence > lease.fence
    # etcd reports an event a moment before it can be read. Rarely a client is quick enough to notice.
    assert asked == ([True, False] if revisions[0] < revisions[-1] else [True])
    assert len(asked) == 2 or not lags


def _events(cluster: EtcdCluster) -> float:
    return cluster.total("etcd_debugging_mvcc_events_total")


def _listening(client: Any, count: int) -> bool:
    """Whether so many waiters listen, and do not just look whether they missed something."""
    watchers = [entry.watcher for entry in client._context.engine._tickets.entries.values()]
    ready = [one for one in watchers if one is not None and not one.not_begun and not one.must_look]
    return len(ready) == count


def _longer_than(items: list[Any], count: int) -> bool:
    return len(items) > count
