"""Connections that are cut, a server that restarts, rows that others lock: handled, and nothing leaks."""

import asyncio
import threading
from functools import partial

import psycopg
import pytest

import fencelock
from fencelock.core.ticket import Owner, Place, Ticket
from fencelock.primitives.waiting import new_id
from tests.conformance.cells import Cell, OpenCell, act, answered, queued
from tests.engines.postgresql.server_state import busy, cut, listening, rows
from tests.servers_postgresql import PostgresqlFactory, PostgresqlServer
from tests.waiting import eventually, soon, within


async def test_connections_that_are_cut_while_idle(cell: Cell, server: PostgresqlServer) -> None:
    client = cell.client()
    lease = await cell.run(client.lock(cell.name).acquire)
    assert cut(server, listeners=False)
    await cell.run(lease.renew)
    assert cut(server, listeners=False)
    await cell.run(lease.release)
    again = await cell.run(client.lock(cell.name).acquire)
    assert again.fence > lease.fence
    assert not again.abandoned


async def test_a_waiters_connection_is_cut(cell: Cell, server: PostgresqlServer) -> None:
    client, other = cell.client(), cell.client()
    lease = await cell.run(other.lock(cell.name).acquire)
    waiter = cell.actor().start(client.lock(cell.name, ttl=60).acquire)
    await queued(cell, other, 1)
    fence = (await cell.run(lambda: other.inspect(cell.name))).waiters[0].fence
    (before,) = await soon(lambda: listening(server), "the listener")
    assert cut(server, listeners=True) == 1
    await soon(lambda: listening(server) not in ([], [before]), "another listener")
    await cell.run(lease.release)
    # Woken by the new listener: its renewals are 20 s apart.
    assert (await within(waiter)).fence == fence


async def test_a_restart(own_server: PostgresqlServer, open_cell: OpenCell) -> None:
    server, cell = own_server, open_cell(own_server.url)
    client = cell.client()
    lease = await cell.run(client.lock(cell.name, ttl=30).acquire)
    waiter = cell.actor().start(client.lock(cell.name, ttl=30).acquire)
    await answered(client, 2)
    # A server waits for a client that is connecting, and `stop` keeps that from going on.
    await soon(lambda: listening(server), "the waiter to listen")
    server.stop()
    with pytest.raises(fencelock.EngineError) as caught:
        await cell.run(client.lock("other").acquire)
    assert caught.value.outcome == "not applied"
    server.start()
    await cell.run(lease.renew)
    lease.check()
    await cell.run(lease.release)
    assert (await within(waiter)).fence > lease.fence


async def test_a_crash_forgets_nothing_that_was_acknowledged(
    postgresql_server: PostgresqlFactory, open_cell: OpenCell
) -> None:
    """Not even where synchronous_commit is off: for our own connections it is on."""
    server = postgresql_server(
        fsync="on", full_page_writes="on", synchronous_commit="off", wal_writer_delay="10s"
    )
    cell = open_cell(server.url)
    client = cell.client()
    leases = [await cell.run(client.lock(f"{cell.name}:{n}").acquire) for n in range(5)]
    server.kill()
    server.start()
    for lease in leases:
        await cell.run(lease.renew)
        seen = await cell.run(partial(client.inspect, lease.name))
        assert [one.fence for one in seen.holders] == [lease.fence]


def test_a_synchronous_standby_has_to_know_what_was_acknowledged(
    own_server: PostgresqlServer,
) -> None:
    """Also if synchronous_commit is local: a standby may be promoted."""
    with fencelock.Client(own_server.url) as client:
        client.lock("x").acquire().release()  # makes the tables
    own_server.execute("ALTER SYSTEM SET synchronous_commit = 'local'")
    own_server.execute("ALTER SYSTEM SET synchronous_standby_names = 'away'")
    own_server.execute("SELECT pg_reload_conf()")
    show = "SHOW synchronous_standby_names"
    eventually(lambda: own_server.execute(show) == [("away",)], "the settings")
    with fencelock.Client(own_server.url) as client:
        with pytest.raises(fencelock.EngineError) as caught:
            client.lock("x").acquire()
        assert caught.value.outcome == "unknown"
        own_server.execute("ALTER SYSTEM RESET synchronous_standby_names")
        own_server.execute("SELECT pg_reload_conf()")
        eventually(lambda: own_server.execute(show) == [("",)], "the settings")


async def test_another_transaction_locks_the_row(cell: Cell, server: PostgresqlServer) -> None:
    client = cell.client()
    held = await cell.run(client.lock(cell.name).acquire)
    with server.connect() as hog, hog.transaction():
        hog.execute("SELECT 1 FROM fencelock.names FOR UPDATE")
        for act in (client.lock(cell.name).try_acquire, client.lock(cell.name).acquire):
            with pytest.raises(fencelock.EngineError) as caught:
                await asyncio.wait_for(cell.run(act), 30)
            assert caught.value.outcome == "unknown"
        other = await cell.run(client.lock(cell.name + ":other").acquire)
        await cell.run(other.release)
    held.check()
    await soon(lambda: not busy(server), "no statement and no transaction to be left")
    await soon(lambda: rows(server, cell.name) == (1, 0), "no ticket to be left in the queue")


async def test_a_caller_that_gives_up_leaves_nothing_running(
    cell: Cell, server: PostgresqlServer
) -> None:
    """The server does not notice that a client is gone while it waits for a row."""
    client = cell.client()
    await cell.run((await cell.run(client.lock(cell.name).acquire)).release)
    with server.connect() as hog, hog.transaction():
        hog.execute("SELECT 1 FROM fencelock.names FOR UPDATE")
        with pytest.raises(fencelock.EngineError):
            await cell.run(lambda: client.lock(cell.name).acquire(timeout=0.3))
        await soon(lambda: not busy(server, "v2_enter"), "the server to give up as well")


async def test_a_lease_begins_when_the_row_is_ours(cell: Cell, server: PostgresqlServer) -> None:
    client = cell.client()
    await cell.run((await cell.run(client.lock(cell.name).acquire)).release)
    with server.connect() as hog:
        with hog.transaction():
            hog.execute("SELECT 1 FROM fencelock.names FOR UPDATE")
            entering = cell.actor().start(client.lock(cell.name, ttl=5).acquire)
            await soon(lambda: busy(server), "the row lock to be waited for")
            ((freed,),) = hog.execute("SELECT fencelock.v2_now()").fetchall()
        await entering
        ((admitted, left),) = hog.execute(
            "SELECT admitted, expires - admitted FROM fencelock.names WHERE name = %s", [cell.name]
        ).fetchall()
    assert admitted >= freed
    assert left == 5_000_000


@pytest.mark.usefixtures("patient")
async def test_a_user_whose_transactions_are_serializable(
    server: PostgresqlServer, open_cell: OpenCell
) -> None:
    server.execute("DROP ROLE IF EXISTS strict")
    server.execute("CREATE ROLE strict SUPERUSER LOGIN PASSWORD 'strict'")
    server.execute("ALTER ROLE strict SET default_transaction_isolation = 'serializable'")
    await take_turns(open_cell(server.url_of("strict", "strict")))


async def take_turns(cell: Cell, count: int = 6) -> None:
    client, fences = cell.client(), list[int]()

    async def contend() -> None:
        actor = cell.actor()
        for _ in range(5):
            lease = await actor.do(client.lock(cell.name).acquire)
            fences.append(lease.fence)
            await actor.do(lease.release)

    await asyncio.gather(*(contend() for _ in range(count)))
    assert len(fences) == 5 * count
    assert fences == sorted(set(fences))


async def test_a_deadlock_is_tried_again(cell: Cell, server: PostgresqlServer) -> None:
    """Another transaction locks our rows in another order: the server may choose us as its victim."""
    client = cell.client()
    engine = client._context.engine
    tickets = [Ticket(f"{cell.name}:{n}", new_id(), 30.0, Owner("host", 1)) for n in range(2)]
    for one in tickets:
        standing = await act(cell, engine.enter(one, if_free=False, timeout=30))
        assert standing.place is Place.ADMITTED
    with server.connect(options="-c deadlock_timeout=60s") as hog, hog.transaction():
        lock = "SELECT 1 FROM fencelock.names WHERE name = %s FOR UPDATE"
        hog.execute(lock, [tickets[1].name])
        renewal = asyncio.create_task(act(cell, engine.renew(tickets, timeout=30)))
        await soon(lambda: busy(server), "the renewal to wait for the second row")
        hog.execute(lock, [tickets[0].name])  # waits until the renewal is the victim
    standings = await renewal
    assert [standing.place for standing in standings] == [Place.ADMITTED] * 2
    assert not busy(server)


async def test_renewals_in_any_order_do_not_deadlock(cell: Cell, server: PostgresqlServer) -> None:
    client = cell.client()
    engine = client._context.engine
    tickets = [Ticket(f"{cell.name}:{n}", new_id(), 30.0, Owner("host", 1)) for n in range(50)]
    for one in tickets:
        await act(cell, engine.enter(one, if_free=False, timeout=30))
    before = deadlocks(server)

    async def renew(order: int) -> None:
        for _ in range(10):
            standings = await act(cell, engine.renew(tickets[::order], timeout=30))
            assert {standing.place for standing in standings} == {Place.ADMITTED}

    await asyncio.gather(*(renew(order) for order in (1, -1, 1, -1)))
    assert deadlocks(server) == before


def deadlocks(server: PostgresqlServer) -> int:
    ((count,),) = server.execute(
        "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()"
    )
    return int(count)


async def test_renewals_of_odd_names(cell: Cell) -> None:
    engine = cell.client()._context.engine
    odd = ('"', "\\", '\\"', ",", "{", "}", "NULL", "'", " ", "%s", "$1")
    tickets = [Ticket(cell.name + name, new_id(), 30.0, Owner("host", 1, name)) for name in odd]
    for one in tickets:
        await act(cell, engine.enter(one, if_free=False, timeout=30))
    standings = await act(cell, engine.renew(tickets, timeout=30))
    assert [standing.place for standing in standings] == [Place.ADMITTED] * len(odd)


async def test_cancelled_while_the_row_is_locked(server: PostgresqlServer) -> None:
    async with fencelock.AsyncClient(server.url) as client:
        await (await client.lock("a").acquire()).release()
        with server.connect() as hog, hog.transaction():
            hog.execute("SELECT 1 FROM fencelock.names FOR UPDATE")
            task = asyncio.create_task(client.lock("a").acquire())
            await soon(lambda: busy(server), "the row lock to be waited for")
            task.cancel()
            await asyncio.wait([task])
            assert task.cancelled()
        await soon(lambda: not busy(server), "nothing to be left running")
        await soon(lambda: rows(server, "a") == (0, 0), "nothing to be left behind")


def test_idle_waiters_have_no_transaction(server: PostgresqlServer) -> None:
    with fencelock.Client(server.url) as client:
        lease = client.lock("a").acquire()
        waiter = threading.Thread(target=lambda: client.lock("a").acquire().release())
        waiter.start()
        eventually(lambda: client.inspect("a").waiting, "the waiter")
        held = (
            "SELECT count(*) FROM pg_locks l JOIN pg_stat_activity a USING (pid) "
            "WHERE a.application_name = 'fencelock' AND l.locktype <> 'virtualxid'"
        )
        # A ticket that waits for a second has no marker any more.
        eventually(
            lambda: server.execute(held) == [(0,)], "the waiter to have no lock in the server"
        )
        eventually(lambda: not busy(server), "the waiter to be idle")
        lease.release()
        waiter.join(10)


def test_the_helpers_do_not_count_themselves(server: PostgresqlServer) -> None:
    """Their own connection is not one of ours."""
    with server.connect() as connection:
        assert isinstance(connection, psycopg.Connection)
        assert busy(server) == []


async def test_a_session_lock_whose_counter_is_missing(
    server: PostgresqlServer, open_cell: OpenCell
) -> None:
    """It can be missing just while a first holder comes, or after a clean-up by hand."""
    cell = open_cell(server.url.replace("postgresql://", "postgresql+advisory://"))
    client = cell.client()
    lease = await cell.run(client.lock(cell.name).acquire)
    server.execute("DELETE FROM fencelock.counters")
    seen = await cell.run(lambda: client.inspect(cell.name))
    assert [holder.fence for holder in seen.holders] == [lease.fence]
    assert not seen.abandoned
