"""A wake-up that never arrives, comes late or comes twice: the waiter is served all the same."""

import re
from collections.abc import Callable
from functools import partial

import pytest

from fencelock.core.ticket import Owner, Place, Standing, Ticket
from fencelock.engines.registry import open_engine
from fencelock.io.asyncio import AsyncioIO
from fencelock.io.blocking import BlockingIO
from fencelock.primitives.waiting import new_id
from tests import counting
from tests.conformance.cells import OpenCell, answered, queued
from tests.conformance.test_queue import as_face, enter
from tests.engines.redis.server_state import next_done, tickets
from tests.proxy import Harm, TcpProxy, garbled
from tests.servers import HOST, RedisFactory, RedisServer
from tests.waiting import within


@pytest.fixture
def server(redis_server: RedisFactory) -> RedisServer:
    return redis_server()


@pytest.fixture
def proxy(server: RedisServer, tcp_proxy: Callable[[int], TcpProxy]) -> TcpProxy:
    return tcp_proxy(server.port)


async def test_the_wake_up_is_lost(
    server: RedisServer, proxy: TcpProxy, open_cell: OpenCell
) -> None:
    """The connection stays open, but nothing comes through it: the next renewal brings the news."""
    near, far = open_cell(server.url), open_cell(f"redis://{HOST}:{proxy.port}")
    holder, client = near.client(), far.client()
    lease = await near.run(lambda: holder.lock(near.name, ttl=30).acquire())
    waiter = far.actor().start(lambda: client.lock(near.name, ttl=3).acquire())
    await queued(near, holder, 1)
    await answered(client, 1)
    proxy.mute()
    with counting.commands(server) as commands:
        await near.run(lease.release)
    assert commands["publish"] == 1
    assert not waiter.done()
    proxy.heal()
    following = await within(waiter)
    assert following.fence > lease.fence
    assert tickets(server, near.name) == [following.id]


async def test_the_waiter_is_cut_off_at_the_moment_of_the_wake_up(
    server: RedisServer, proxy: TcpProxy, open_cell: OpenCell
) -> None:
    near, far = open_cell(server.url), open_cell(f"redis://{HOST}:{proxy.port}")
    holder, client = near.client(), far.client()
    lease = await near.run(lambda: holder.lock(near.name).acquire())
    waiter = far.actor().start(lambda: client.lock(near.name).acquire())
    await queued(near, holder, 1)
    await answered(client, 1)
    proxy.refuse()
    await near.run(lease.release)
    proxy.heal()
    assert (await within(waiter)).fence > lease.fence


def unreadable(piece: bytes) -> bytes:
    """What comes behind the first space is no number any more."""
    return re.sub(rb"(?<= )[0-9]", b"\xff", piece)


def shortened(piece: bytes) -> bytes:
    """A push without its last part, which looks like a reply then."""
    return piece.replace(b">3", b">2")


@pytest.mark.parametrize("harm", [garbled, unreadable, shortened])
async def test_the_wake_up_is_damaged(
    server: RedisServer, proxy: TcpProxy, open_cell: OpenCell, harm: Harm
) -> None:
    """After that all get their wake-ups: the waiter whose wake-up it was, and later waiters."""
    near, far = open_cell(server.url), open_cell(f"redis://{HOST}:{proxy.port}")
    holder, client = near.client(), far.client()
    lease = await near.run(lambda: holder.lock(near.name).acquire())
    waiter = far.actor().start(lambda: client.lock(near.name, ttl=6).acquire())
    await queued(near, holder, 1)
    await answered(client, 1)
    damaged = proxy.damage(tickets(server, near.name)[-1].encode(), harm)
    await near.run(lease.release)
    second = await within(waiter)
    assert damaged.is_set()
    waiter = far.actor().start(lambda: client.lock(near.name, ttl=6).acquire())
    await answered(client, 2)
    await far.run(second.release)
    assert (await within(waiter)).fence > second.fence > lease.fence


async def test_waiters_that_leave_are_not_missed(server: RedisServer, open_cell: OpenCell) -> None:
    """The one ahead leaves, so that the one behind has to mind somebody else's expiry."""
    cell = open_cell(server.url)
    client, engine = cell.client(), cell.client()._context.engine
    ahead, between = (Ticket(cell.name, new_id(), ttl, Owner("dead", 1)) for ttl in (5.0, 300.0))
    for one in (ahead, between):
        await cell.run(partial(enter, cell, engine, one))  # will never be renewed
    last = cell.actor().start(lambda: client.lock(cell.name, ttl=300).acquire())
    await queued(cell, client, 2)
    await cell.run(lambda: as_face(cell, engine.leave(between, timeout=30)))
    lease = await within(last)  # and not only at its next renewal, after 100 s
    assert lease.abandoned


@pytest.mark.parametrize("face", ["sync", "async"])
async def test_of_two_wake_ups_the_second_counts(server: RedisServer, face: str) -> None:
    """They may arrive together, before the one they are for has run."""
    engine = open_engine(server.url, BlockingIO() if face == "sync" else AsyncioIO())
    now = engine._io.now()  # type: ignore[attr-defined]
    first, second, third = (
        Ticket("x", new_id(), 30.0, Owner("here", number)) for number in range(3)
    )
    for ticket in (first, second, third):
        await engine.enter(ticket, if_free=False, timeout=30)
    await engine.leave(second, timeout=30)  # tells the third one that it stands behind the first
    await engine.leave(first, timeout=30)  # tells it that it is its turn
    seen: list[Standing | None] = [await engine.park(third, now + 5)]
    if face == "sync":  # what both bring is read in turn
        seen.append(await engine.park(third, now + 5))
    assert seen[-1] is not None
    assert seen[-1].place is Place.ADMITTED
    for ticket in (second, third):
        engine.unpark(ticket)
    await engine.close()


async def test_a_late_wake_up_reaches_no_other_ticket(server: RedisServer) -> None:
    """A connection goes to the next caller, with the wake-up of the one before still in it."""
    engine = open_engine(server.url, BlockingIO())
    now = engine._io.now()  # type: ignore[attr-defined]
    holder, gone, other = (
        Ticket("x", new_id(), 30.0, Owner("here", number)) for number in range(3)
    )
    await engine.enter(holder, if_free=False, timeout=30)
    assert (await engine.enter(gone, if_free=False, timeout=30)).place is Place.WAITING
    engine.unpark(gone)
    await engine.leave(holder, timeout=30)  # wakes the one that does not listen any more
    assert (await engine.enter(other, if_free=False, timeout=30)).place is Place.WAITING
    assert await engine.park(other, now) is None
    await engine.leave(gone, timeout=30)
    standing = await engine.park(other, now + 5)
    assert standing is not None
    assert standing.place is Place.ADMITTED
    engine.unpark(other)
    await engine.close()


async def test_parking_without_a_place_to_park(server: RedisServer) -> None:
    engine = open_engine(server.url, AsyncioIO())
    ticket = Ticket("x", new_id(), 30.0, Owner("here", 1))
    assert await engine.park(ticket, engine._io.now() + 60) is None  # type: ignore[attr-defined]
    await engine.close()


async def test_a_wake_up_takes_no_request(server: RedisServer, open_cell: OpenCell) -> None:
    cell = open_cell(server.url)
    client = cell.client()
    lease = await cell.run(lambda: client.lock(cell.name).acquire())
    waiters = [cell.actor().start(lambda: client.lock(cell.name).acquire()) for _ in range(5)]
    await queued(cell, client, 5)
    with counting.requests(server) as requests:
        await cell.run(lease.release)
        for _ in range(5):
            done = await next_done(waiters)
            await cell.run(done.result().release)
    assert requests == {"evalsha": 6}, "six releases, and nobody asked anything"
