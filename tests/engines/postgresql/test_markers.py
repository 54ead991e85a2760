"""In a crowded queue a release wakes the next waiter, and no other session."""

import asyncio
from typing import Any

import pytest

import fencelock
from fencelock.core.ticket import Departure, Owner, Place, Ticket
from fencelock.engines.postgresql import markers
from fencelock.primitives.waiting import new_id
from tests.child import Child
from tests.conformance.cells import Cell, OpenCell, act, queued
from tests.engines.postgresql.server_state import busy, connections, listening
from tests.proxy import TcpProxy
from tests.servers_postgresql import PostgresqlServer
from tests.waiting import eventually, soon, within


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """A marker lasts: the machine may stand still for a second."""
    monkeypatch.setattr(markers, "_KEEP", 300.0)


def marked(server: PostgresqlServer) -> int:
    """How many tickets have a marker."""
    ((count,),) = server.execute(
        "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND granted AND mode = 'ExclusiveLock'"
    )
    return int(count)


def waits(server: PostgresqlServer) -> bool:
    """Whether a statement waits for a marker."""
    return bool(busy(server, "%wait_marked%"))


class Crowd:
    """A holder without a marker, a waiter that listens, and one behind it that waits for its marker."""

    def __init__(self, cell: Cell, server: PostgresqlServer) -> None:
        self.cell, self.server = cell, server
        self.holder, self.first, self.second = cell.client(), cell.client(), cell.client()

    async def gather(self) -> None:
        cell, server = self.cell, self.server
        self.lease = await cell.run(self.holder.lock(cell.name).acquire)
        self.turn = cell.actor().start(self.first.lock(cell.name).acquire)
        await queued(cell, self.holder, 1)
        await soon(lambda: listening(server), "the first waiter to listen")
        self.next = cell.actor().start(self.second.lock(cell.name, ttl=60).acquire)
        await queued(cell, self.holder, 2)
        await soon(lambda: waits(server), "the second waiter to wait for the first one's marker")

    async def proceed(self) -> Any:
        """The first waiter has its turn. Returns its lease."""
        await self.cell.run(self.lease.release)
        return await within(self.turn)


@pytest.fixture
async def crowd(cell: Cell, server: PostgresqlServer) -> Crowd:
    crowd = Crowd(cell, server)
    await crowd.gather()
    return crowd


async def test_the_next_waiter_needs_no_notification(
    crowd: Crowd, cell: Cell, server: PostgresqlServer
) -> None:
    turn = await crowd.proceed()
    assert marked(server) == 2
    await cell.run(turn.release)
    second = await within(crowd.next)
    assert second.fence > turn.fence
    assert len(listening(server)) == 1, "only the first waiter's client has ever listened"
    await cell.run(second.release)
    assert marked(server) == 0


async def test_the_waiter_in_between_gives_up(
    crowd: Crowd, cell: Cell, server: PostgresqlServer
) -> None:
    """The waiter behind it finds the holder ahead, which has no marker, and listens."""
    await cell.run(crowd.first.close)
    with pytest.raises(fencelock.FencelockError):
        await within(crowd.turn)
    await soon(lambda: not waits(server) and listening(server), "the second waiter to listen")
    assert not crowd.next.done()
    await cell.run(crowd.lease.release)
    assert (await within(crowd.next)).fence > crowd.lease.fence


async def test_the_lock_is_broken(crowd: Crowd, cell: Cell) -> None:
    turn = await crowd.proceed()
    assert await cell.run(lambda: crowd.holder.break_lock(cell.name))
    assert (await within(crowd.next)).fence > turn.fence


async def test_the_connection_with_the_marker_is_cut(
    crowd: Crowd, cell: Cell, server: PostgresqlServer
) -> None:
    """The lease is not the connection's: its holder goes on, and the waiter behind it waits otherwise."""
    turn = await crowd.proceed()
    (its,) = crowd.first._context.engine._markers._marked.values()
    pid = its.wire._conn.backend_pid
    server.execute("SELECT pg_terminate_backend(%s, 5000)", pid)
    await soon(lambda: len(listening(server)) == 2, "the second waiter to listen")
    turn.check()
    await cell.run(turn.release)
    assert (await within(crowd.next)).fence > turn.fence


async def test_cancelled_while_it_waits_for_a_marker(server: PostgresqlServer) -> None:
    async with (
        fencelock.AsyncClient(server.url) as one,
        fencelock.AsyncClient(server.url) as two,
    ):
        lease = await one.lock("x").acquire()
        turn = asyncio.create_task(one.lock("x").acquire())
        await soon(lambda: listening(server), "the first waiter to listen")
        cancelled = asyncio.create_task(two.lock("x").acquire())
        await soon(lambda: waits(server), "the second waiter")
        cancelled.cancel()
        with pytest.raises(asyncio.CancelledError):
            await within(cancelled)
        assert (await one.inspect("x")).waiting == 1
        last = asyncio.create_task(two.lock("x").acquire())
        await lease.release()
        await (await within(turn)).release()
        await (await within(last)).release()
        await soon(lambda: marked(server) == 0, "the markers to go")
        assert two._context.engine._pool._open <= 2  # type: ignore[attr-defined]


def test_the_client_with_the_marker_is_killed(server: PostgresqlServer) -> None:
    with fencelock.Client(server.url) as client, Child("sync", server.url) as child:
        lease = client.lock("x").acquire()
        child.send("acquire", name="x", ttl=2)
        eventually(lambda: client.inspect("x").waiting, "the child to wait")
        lease.release()
        fence = child.receive()["fence"]
        child.kill()
        assert client.lock("x").acquire(timeout=60).fence > fence
        eventually(lambda: marked(server) <= 1, "its marker to go")


async def test_most_connections_stay_free(cell: Cell, server: PostgresqlServer) -> None:
    client = cell.client()
    leases = [await cell.run(client.lock(f"{cell.name}:{n}").acquire) for n in range(9)]
    waiters = [cell.actor().start(client.lock(f"{cell.name}:{n}").acquire) for n in range(9)]
    for n in range(9):
        await queued(cell, client, 1, f"{cell.name}:{n}")
    assert marked(server) <= 4
    assert connections(server) <= 9
    for lease in leases:
        await cell.run(lease.release)
    for waiter in waiters:
        await cell.run((await within(waiter)).release)
    assert marked(server) == 0


async def test_a_slow_queue_has_no_markers(
    crowd: Crowd, cell: Cell, server: PostgresqlServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They take connections. The waiters go on to wait, and are woken by NOTIFY."""
    monkeypatch.setattr(markers, "_KEEP", 0.0)
    late = cell.client()
    last = cell.actor().start(late.lock(cell.name).acquire)
    await soon(lambda: len(listening(server)) >= 2, "the last waiter to listen")
    for client in (crowd.first, crowd.second, late):
        await act(cell, client._context.engine._markers.thin_out())
    turn = await crowd.proceed()
    await cell.run(turn.release)
    second = await within(crowd.next)
    await cell.run(second.release)
    assert (await within(last)).fence > second.fence


async def test_the_network_of_the_waiter_is_cut(
    server: PostgresqlServer, open_cell: OpenCell
) -> None:
    """Its statement waits in the server at that moment."""
    with TcpProxy(server.port, lambda: lambda _: 0) as proxy:
        cell = open_cell(server.url)
        behind = open_cell(server.url.replace(f":{server.port}/", f":{proxy.port}/"))
        crowd = Crowd(cell, server)
        crowd.second = behind.client()
        await crowd.gather()
        proxy.cut()
        turn = await crowd.proceed()
        await cell.run(turn.release)
        assert (await within(crowd.next)).fence > turn.fence


async def test_a_dead_connection_has_the_marker(cell: Cell, server: PostgresqlServer) -> None:
    """The server does not know yet that it is dead. To join again does not wait for it: that would keep the
    name's row locked. Nor does to leave."""
    client = cell.client()
    lease = await cell.run(client.lock(cell.name).acquire)
    ticket = Ticket(cell.name, new_id(), 30.0, Owner("host", 1))
    with server.connect() as dead:
        dead.execute("SELECT pg_advisory_lock(fencelock.v2_marker(%s))", (ticket.id,))
        its = client._context.engine._markers
        standing = await act(cell, its.enter(ticket, 60))
        assert standing.place is Place.WAITING
        assert await act(cell, its.leave(ticket, Departure.WITHDRAWN, 60))
    await cell.run(lease.release)


async def test_a_slow_queue_listens_again(
    cell: Cell, server: PostgresqlServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A waiter that only asked again and again would wait, too, but at what price."""
    monkeypatch.setattr(markers, "_KEEP", 0.0)
    holder, waiter = cell.client(), cell.client()
    lease = await cell.run(holder.lock(cell.name).acquire)
    turn = cell.actor().start(waiter.lock(cell.name).acquire)
    (before,) = await soon(lambda: listening(server), "the waiter to listen")
    server.execute("SELECT pg_terminate_backend(%s, 5000)", before)
    await soon(lambda: listening(server) not in ([], [before]), "another listener")
    await cell.run(lease.release)
    await within(turn)
