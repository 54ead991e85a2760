"""The release itself wakes the next waiter."""

import asyncio

import pytest

from fencelock.core.ticket import READING, Place
from tests.conformance.cells import Cell, queued
from tests.conformance.test_sharing import Desk
from tests.servers_postgresql import PostgresqlServer
from tests.waiting import soon, within


async def test_a_wake_up_carries_the_answer(
    cell: Cell, server: PostgresqlServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From the release to the next holder there is one statement: the release."""
    client, other = cell.client(), cell.client()
    lease = await cell.run(other.lock(cell.name).acquire)
    waiter = cell.actor().start(client.lock(cell.name, ttl=60).acquire)
    await queued(cell, other, 1)
    await soon(lambda: client._context.engine._listener._subscriptions, "the waiter to sleep")
    monkeypatch.setattr(client._context.engine, "_ask", None)  # it must not ask anything
    await cell.run(lease.release)
    assert (await within(waiter)).fence > lease.fence
    monkeypatch.undo()


async def test_a_wake_up_that_is_lost(cell: Cell, server: PostgresqlServer) -> None:
    """The next renewal tells the waiter that it was admitted."""
    client, other = cell.client(), cell.client()
    lease = await cell.run(other.lock(cell.name).acquire)
    waiter = cell.actor().start(client.lock(cell.name, ttl=1.5).acquire)
    await queued(cell, other, 1)
    server.execute("UPDATE fencelock.tickets SET channel = 'nowhere'")
    await cell.run(lease.release)
    assert (await within(waiter)).fence > lease.fence


async def test_a_client_that_must_poll_learns_that_its_readers_were_admitted(cell: Cell) -> None:
    """As behind a pooler. Readers are not in the name's row: the poll must look at the tickets, too."""
    desk = Desk(cell)
    desk.engine._listener._must_poll, desk.engine._listener.channel = True, ""
    writer = await desk.joined("writer")
    readers = [await desk.joined(label, READING) for label in "ab"]
    parked = [desk.park(reader) for reader in readers]
    assert await desk.leave(writer)
    for news in await asyncio.wait_for(asyncio.gather(*parked), 10):
        assert news.place is Place.ADMITTED
