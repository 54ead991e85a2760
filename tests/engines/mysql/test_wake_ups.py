"""The release itself wakes the next waiter, by KILL QUERY."""

import asyncio
import threading
from random import random

import pytest

import fencelock
from tests.conformance.cells import Cell, OpenCell, queued
from tests.engines.mysql.server_state import asleep, connections, cut, listening
from tests.servers_mysql import DATABASE, MysqlServer
from tests.waiting import soon, within


async def test_the_release_itself_wakes(
    cell: Cell, server: MysqlServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server would sleep for a minute, and renewals are 20 s apart: only KILL QUERY can do it."""
    monkeypatch.setattr("fencelock.engines.mysql.listener.Listener.SLEEPS", (60.0, 60.0))
    client, other = cell.client(), cell.client()
    listeners = set[int]()
    for _ in range(5):
        lease = await cell.run(other.lock(cell.name).acquire)
        waiter = cell.actor().start(client.lock(cell.name, ttl=60).acquire)
        await queued(cell, other, 1)
        listeners |= set(await asleep(server, waiter))
        await cell.run(lease.release)
        heir = await within(waiter)
        assert heir.fence > lease.fence
        await cell.run(heir.release)
    assert len(listeners) == 1, "a wake-up does not cost the connection"


async def test_a_wake_up_at_any_moment_does_no_harm(cell: Cell, server: MysqlServer) -> None:
    """KILL QUERY may find the listener between two statements, or in any place of one."""
    client, other = cell.client(), cell.client()
    lease = await cell.run(other.lock(cell.name).acquire)
    waiter = cell.actor().start(client.lock(cell.name, ttl=60).acquire)
    (listener,) = await asleep(server, waiter)
    enough = threading.Event()
    kills = 0

    def kill_often() -> None:
        nonlocal kills
        with server.connect() as connection, connection.cursor() as cursor:
            while not enough.wait(random() * 0.01):  # often less than a statement takes
                cursor.execute(f"KILL QUERY {listener}")
                kills += 1

    killer = threading.Thread(target=kill_often)
    killer.start()
    try:
        while kills < 100:
            await cell.run(lease.release)
            heir = await within(waiter)
            assert heir.fence > lease.fence
            await cell.run(heir.release)
            lease = await cell.run(other.lock(cell.name).acquire)
            waiter = cell.actor().start(client.lock(cell.name, ttl=60).acquire)
            await queued(cell, other, 1)
    finally:
        enough.set()
        killer.join()
    await soon(lambda: listening(server) == [listener], "the same listener to sleep")
    await cell.run(lease.release)
    await within(waiter)


async def test_the_connection_that_has_the_latch_is_cut(
    cell: Cell, server: MysqlServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The listener can't sleep then, until another connection has the latch."""
    monkeypatch.setattr("fencelock.engines.mysql.listener.Listener.SLEEPS", (60.0, 60.0))
    client, other = cell.client(), cell.client()
    lease = await cell.run(other.lock(cell.name).acquire)
    waiter = cell.actor().start(client.lock(cell.name, ttl=60).acquire)
    before = await asleep(server, waiter)
    for _ in range(3):
        assert await asyncio.to_thread(cut, server, listeners=False)
        await soon(lambda: connections(server) > 1, "another connection for the latch")
        assert await asleep(server, waiter) == before
    await cell.run(lease.release)
    assert (await within(waiter)).fence > lease.fence


def test_a_listener_releases_the_latch(server: MysqlServer) -> None:
    """KILL may have ended earlier calls just after they got the latch."""
    with server.connect() as connection, connection.cursor() as cursor:
        for _ in range(2):
            cursor.execute("DO GET_LOCK('latch', 0)")
        cursor.execute("CALL fencelock_v2_listen('', 'latch', 60)")
        assert cursor.fetchall() == (("",),)
        assert server.execute("SELECT IS_FREE_LOCK('latch')") == [(1,)]


async def test_the_waiter_behind_a_leaver_looks_again(
    cell: Cell, server: MysqlServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another ticket is ahead of it now: it should look again when that one expires."""
    monkeypatch.setattr("fencelock.engines.mysql.listener.Listener.SLEEPS", (60.0, 60.0))
    client = cell.client()
    await cell.run(client.lock(cell.name, ttl=60).acquire)
    leaver = cell.actor().start(lambda: client.lock(cell.name, ttl=60).acquire(timeout=2))
    await queued(cell, client, 1)
    waiter = cell.actor().start(lambda: client.lock(cell.name, ttl=60).acquire())
    await queued(cell, client, 2)
    server.execute("UPDATE fencelock_names SET expires = expires - 55000000")  # it will die soon
    with pytest.raises(fencelock.LockTimeout):
        await leaver
    assert (await within(waiter)).abandoned


async def test_another_users_release_is_noticed(server: MysqlServer, open_cell: OpenCell) -> None:
    """A user may not end another user's statements: then the client looks more often."""
    server.execute("CREATE OR REPLACE USER other IDENTIFIED BY 'other'")
    server.execute(f"GRANT ALL ON {DATABASE}.* TO other")
    cell, theirs = open_cell(server.url), open_cell(server.url_of("other", "other"))
    client, other = cell.client(), theirs.client()
    for _ in range(3):
        lease = await cell.run(other.lock(cell.name).acquire)
        waiter = cell.actor().start(client.lock(cell.name, ttl=60).acquire)
        await queued(cell, other, 1)
        await cell.run(lease.release)
        heir = await within(waiter)
        await cell.run(heir.release)


async def test_a_wake_up_that_is_lost(cell: Cell, server: MysqlServer) -> None:
    """The server does not sleep for long, and renewals are 40 s apart."""
    client, other = cell.client(), cell.client()
    lease = await cell.run(other.lock(cell.name).acquire)
    waiter = cell.actor().start(client.lock(cell.name, ttl=120).acquire)
    await queued(cell, other, 1)
    server.execute("UPDATE fencelock_tickets SET channel = 'nowhere'")
    await cell.run(lease.release)
    assert (await within(waiter)).fence > lease.fence
