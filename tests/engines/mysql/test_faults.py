"""Connections that are cut, a server that restarts, rows that others lock: handled, and nothing leaks."""

import asyncio
import threading
from functools import partial
from typing import Any

import pytest

import fencelock
from fencelock.core.ticket import Owner, Place, Ticket
from fencelock.primitives.waiting import new_id
from tests.child import Child
from tests.conformance.cells import Cell, OpenCell, act, answered, queued
from tests.engines.mysql.server_state import asleep, busy, cut, listening, rows, transactions
from tests.io.test_fork import in_child
from tests.servers_mysql import MysqlFactory, MysqlServer
from tests.waiting import eventually, soon, within

LOCK = "SELECT 1 FROM fencelock_names WHERE name = %s FOR UPDATE"


async def test_connections_that_are_cut_while_idle(cell: Cell, server: MysqlServer) -> None:
    client = cell.client()
    lease = await cell.run(client.lock(cell.name).acquire)
    assert cut(server, listeners=False)
    await cell.run(lease.renew)
    assert cut(server, listeners=False)
    await cell.run(lease.release)
    again = await cell.run(client.lock(cell.name).acquire)
    assert again.fence > lease.fence
    assert not again.abandoned


async def test_cancelled_at_the_moment_of_the_connection(
    server: MysqlServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """asyncmy connects with `asyncio.wait_for`, which loses such a cancellation before Python 3.12."""
    loop = asyncio.get_running_loop()
    connect = loop.create_connection

    async def connect_and_cancel(*args: Any, **options: Any) -> Any:
        made = await connect(*args, **options)
        loop.call_soon(task.cancel)
        return made

    async with fencelock.AsyncClient(server.url) as client:
        monkeypatch.setattr(loop, "create_connection", connect_and_cancel)
        task = asyncio.create_task(client.lock("cancelled").acquire())
        with pytest.raises(asyncio.CancelledError):
            await within(task)
        monkeypatch.undo()
        assert await client.lock("cancelled").try_acquire() is not None


async def test_a_waiters_connection_is_cut(cell: Cell, server: MysqlServer) -> None:
    client, other = cell.client(), cell.client()
    lease = await cell.run(other.lock(cell.name).acquire)
    waiter = cell.actor().start(client.lock(cell.name, ttl=60).acquire)
    await queued(cell, other, 1)
    fence = (await cell.run(lambda: other.inspect(cell.name))).waiters[0].fence
    (before,) = await asleep(server, waiter)
    server.execute(f"KILL CONNECTION {before}")
    await soon(lambda: listening(server) not in ([], [before]), "another listener")
    await cell.run(lease.release)
    # Woken by the new listener: its renewals are 20 s apart.
    assert (await within(waiter)).fence == fence


@pytest.mark.slow
async def test_a_waiter_that_was_stopped_for_longer_than_the_answer_timeout(cell: Cell) -> None:
    client = cell.client()
    lease = await cell.run(client.lock(cell.name).acquire)
    with Child(cell.face, cell.url) as waiter:
        assert waiter.call("wait", name=cell.name, ttl=1) == "waits"
        waiter.stop()
        await asyncio.sleep(7)  # time itself is under test
        waiter.go_on()
        await queued(cell, client, 1)
        await cell.run(lease.release)
        assert waiter.receive()["fence"] > lease.fence


async def test_a_restart(own_server: MysqlServer, open_cell: OpenCell) -> None:
    server, cell = own_server, open_cell(own_server.url)
    client = cell.client()
    lease = await cell.run(client.lock(cell.name, ttl=30).acquire)
    waiter = cell.actor().start(client.lock(cell.name, ttl=30).acquire)
    await answered(client, 2)
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
    mysql_server: MysqlFactory, open_cell: OpenCell
) -> None:
    server = mysql_server(innodb_flush_log_at_trx_commit=1, innodb_doublewrite="ON")
    cell = open_cell(server.url)
    client = cell.client()
    leases = [await cell.run(client.lock(f"{cell.name}:{n}").acquire) for n in range(5)]
    server.kill()
    server.start()
    for lease in leases:
        await cell.run(lease.renew)
        seen = await cell.run(partial(client.inspect, lease.name))
        assert [one.fence for one in seen.holders] == [lease.fence]


async def test_another_transaction_locks_the_row(cell: Cell, server: MysqlServer) -> None:
    client = cell.client()
    held = await cell.run(client.lock(cell.name).acquire)
    with server.connect() as hog, hog.cursor() as cursor:
        hog.begin()
        cursor.execute(LOCK, [cell.name])
        for act in (client.lock(cell.name).try_acquire, client.lock(cell.name).acquire):
            with pytest.raises(fencelock.EngineError) as caught:
                await asyncio.wait_for(cell.run(act), 30)
            assert caught.value.outcome == "unknown"
        other = await cell.run(client.lock(cell.name + ":other").acquire)
        await cell.run(other.release)
    held.check()
    await soon(lambda: not busy(server) and not transactions(server), "nothing to be left running")
    await soon(lambda: rows(server, cell.name) == (1, 0), "no ticket to be left in the queue")


async def test_a_lock_wait_timeout_leaves_no_transaction_open(
    cell: Cell, server: MysqlServer
) -> None:
    """After error 1205 MySQL keeps the transaction open."""
    client = cell.client()
    engine = client._context.engine
    tickets = [Ticket(f"{cell.name}:{n}", new_id(), 60.0, Owner("host", 1)) for n in range(2)]
    for one in tickets:
        await act(cell, engine.enter(one, if_free=False, timeout=30))
    with server.connect() as hog, hog.cursor() as cursor:
        hog.begin()
        cursor.execute(LOCK, [tickets[1].name])
        with pytest.raises(fencelock.EngineError, match="Lock wait timeout exceeded") as caught:
            await act(cell, engine.renew(tickets, timeout=20))
        assert "INNODB_TRX" in str(caught.value)
        assert caught.value.outcome == "not applied"
        assert not transactions(server)
        # It has let go of the first row, too.
        cursor.execute(LOCK.replace("FOR UPDATE", "FOR UPDATE NOWAIT"), [tickets[0].name])


async def test_killed_in_the_middle_leaves_no_transaction_open(
    cell: Cell, server: MysqlServer
) -> None:
    """No handler of a procedure is called for KILL QUERY: it can't roll back."""
    client = cell.client()
    engine = client._context.engine
    tickets = [Ticket(f"{cell.name}:{n}", new_id(), 60.0, Owner("host", 1)) for n in range(2)]
    for one in tickets:
        await act(cell, engine.enter(one, if_free=False, timeout=30))
    with server.connect() as hog, hog.cursor() as cursor:
        hog.begin()
        cursor.execute(LOCK, [tickets[1].name])
        renewal = asyncio.create_task(act(cell, engine.renew(tickets, timeout=20)))
        ((id, *_),) = await soon(lambda: busy(server, "FOR UPDATE"), "the row to be waited for")
        server.execute(f"KILL QUERY {id}")
        with pytest.raises(fencelock.EngineError, match="KILL") as caught:
            await renewal
        assert caught.value.outcome == "unknown"
        await soon(lambda: not transactions(server), "the transaction to be rolled back")
    standings = await act(cell, engine.renew(tickets, timeout=30))
    assert [standing.place for standing in standings] == [Place.ADMITTED] * 2


async def test_a_caller_that_gives_up_leaves_nothing_running(
    cell: Cell, server: MysqlServer
) -> None:
    """The server does not notice that a client is gone while it waits for a row."""
    client = cell.client()
    await cell.run((await cell.run(client.lock(cell.name).acquire)).release)
    with server.connect() as hog, hog.cursor() as cursor:
        hog.begin()
        cursor.execute(LOCK, [cell.name])
        with pytest.raises(fencelock.EngineError):
            await cell.run(lambda: client.lock(cell.name).acquire(timeout=0.3))
        await soon(lambda: not busy(server, "newest"), "the server to give up as well")


async def test_a_lease_begins_when_the_row_is_ours(cell: Cell, server: MysqlServer) -> None:
    client = cell.client()
    await cell.run((await cell.run(client.lock(cell.name).acquire)).release)
    with server.connect() as hog, hog.cursor() as cursor:
        hog.begin()
        cursor.execute(LOCK, [cell.name])
        entering = cell.actor().start(client.lock(cell.name, ttl=5).acquire)
        await soon(lambda: busy(server), "the row lock to be waited for")
        cursor.execute("SET time_zone = '+00:00'")
        cursor.execute("SELECT TIMESTAMPDIFF(MICROSECOND, '1970-01-01', SYSDATE(6))")
        ((waits_still_at,),) = cursor.fetchall()
        hog.commit()
        await entering
        query = "SELECT expires - admitted, admitted FROM fencelock_names WHERE name = %s"
        cursor.execute(query, [cell.name])
        ((left, admitted),) = cursor.fetchall()
    assert left == 5_000_000
    assert admitted > waits_still_at


async def test_a_deadlock_is_tried_again(cell: Cell, server: MysqlServer) -> None:
    """Another transaction locks our rows in another order. The server ends the one with fewer changes."""
    client = cell.client()
    engine = client._context.engine
    tickets = [Ticket(f"{cell.name}:{n}", new_id(), 30.0, Owner("host", 1)) for n in range(2)]
    for one in tickets:
        standing = await act(cell, engine.enter(one, if_free=False, timeout=30))
        assert standing.place is Place.ADMITTED
    before = deadlocks(server)
    with server.connect() as hog, hog.cursor() as cursor:
        hog.begin()
        cursor.execute("CREATE TEMPORARY TABLE heavy (n INT) ENGINE = InnoDB")
        cursor.execute("INSERT INTO heavy SELECT seq FROM seq_1_to_1000")
        cursor.execute(LOCK, [tickets[1].name])
        renewal = asyncio.create_task(act(cell, engine.renew(tickets, timeout=30)))
        await soon(lambda: busy(server, "FOR UPDATE"), "the renewal to wait for the second row")
        await asyncio.to_thread(cursor.execute, LOCK, [tickets[0].name])
        hog.commit()
    standings = await renewal
    assert [standing.place for standing in standings] == [Place.ADMITTED] * 2
    assert deadlocks(server) == before + 1
    assert not transactions(server)


async def test_renewals_in_any_order_do_not_deadlock(cell: Cell, server: MysqlServer) -> None:
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


def deadlocks(server: MysqlServer) -> int:
    ((_, count),) = server.execute("SHOW GLOBAL STATUS LIKE 'Innodb_deadlocks'")
    return int(count)


async def test_cancelled_while_the_row_is_locked(server: MysqlServer) -> None:
    async with fencelock.AsyncClient(server.url) as client:
        await (await client.lock("a").acquire()).release()
        with server.connect() as hog, hog.cursor() as cursor:
            hog.begin()
            cursor.execute(LOCK, ["a"])
            task = asyncio.create_task(client.lock("a").acquire())
            await soon(lambda: busy(server), "the row lock to be waited for")
            task.cancel()
            await asyncio.wait([task])
            assert task.cancelled()
        await soon(lambda: not transactions(server), "nothing to be left running")
        await soon(lambda: rows(server, "a") == (0, 0), "nothing to be left behind")


def test_idle_waiters_have_no_transaction(server: MysqlServer) -> None:
    with fencelock.Client(server.url) as client:
        lease = client.lock("a").acquire()
        waiter = threading.Thread(target=lambda: client.lock("a").acquire().release())
        waiter.start()
        eventually(lambda: client.inspect("a").waiting, "the waiter")
        eventually(lambda: listening(server), "the listener")
        assert transactions(server) == []
        lease.release()
        waiter.join(10)
    eventually(lambda: not listening(server), "no waiter to be left in the server")


def test_a_forked_child_leaves_the_parent_unharmed(server: MysqlServer) -> None:
    """The child has copies of the parent's sockets. Its end must not close the parent's connections."""
    with fencelock.Client(server.url) as client:
        lease = client.lock("a").acquire()
        waiter = threading.Thread(target=lambda: client.lock("a").acquire().release())
        waiter.start()
        eventually(lambda: client.inspect("a").waiting, "the waiter")

        def use_it() -> str:
            with client.lock("b") as lease:
                held = lease.name
            client.close()
            return held

        assert in_child(use_it) == "b"
        lease.renew()
        lease.release()
        waiter.join(10)
        assert not waiter.is_alive()
