"""What a lock costs: one request to acquire, one to release, one push to hand it on."""

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from fencelock.core.ticket import Owner, Place, Ticket
from fencelock.engines.registry import open_engine
from fencelock.io.asyncio import AsyncioIO
from fencelock.primitives.waiting import new_id
from tests import counting
from tests.conformance.cells import OpenCell, queued
from tests.engines.redis.server_state import connected, next_done, tickets
from tests.servers import VALKEY, RedisFactory, RedisServer
from tests.waiting import soon, within


@pytest.fixture(params=["redis-server", VALKEY], ids=["redis", "valkey"])
def server(request: pytest.FixtureRequest, redis_server: RedisFactory) -> RedisServer:
    return redis_server(binary=request.param)


async def test_acquire_is_one_request_and_release_is_one(
    server: RedisServer, open_cell: OpenCell
) -> None:
    cell = open_cell(server.url)
    client = cell.client(ttl=600)
    await connected(cell, client)
    for _ in range(3):
        with counting.requests(server) as seen:
            lease = await cell.run(lambda: client.lock(cell.name).acquire())
        assert seen == {"evalsha": 1}
        with counting.requests(server) as seen:
            await cell.run(lease.release)
        assert seen == {"evalsha": 1}
        with counting.requests(server) as seen:
            lease = await cell.run(lambda: client.lock(cell.name).try_acquire())
        assert seen == {"evalsha": 1}
        await cell.run(lease.release)


async def test_several_locks_are_one_write_to_take_and_one_to_give_back(
    server: RedisServer, open_cell: OpenCell
) -> None:
    cell = open_cell(server.url)
    client = cell.client(ttl=600)
    await connected(cell, client)
    several = client.lock_all([f"{cell.name}:{letter}" for letter in "abc"])
    for _ in range(2):
        with counting.writes(server) as taking:
            leases = await cell.run(several.acquire)
        with counting.writes(server) as giving:
            await cell.run(leases.release)
        assert taking == giving == [1]
    assert await cell.run(lambda: client.names(f"{cell.name}:*")) == []


async def test_connecting_is_one_write_and_brings_the_scripts(
    server: RedisServer, open_cell: OpenCell
) -> None:
    cell = open_cell(server.url)
    first, second = cell.client(ttl=600), cell.client(ttl=600)
    with counting.requests(server) as seen:
        await connected(cell, first)
    assert seen == {"hello": 1, "subscribe": 1, "script": 7, "info": 1, "evalsha": 2}
    with counting.requests(server) as seen:
        await connected(cell, second)
    assert seen["eval"] == 0


async def test_a_hand_off_is_one_request_and_one_push(
    server: RedisServer, open_cell: OpenCell
) -> None:
    cell = open_cell(server.url)
    one, other = cell.client(ttl=600), cell.client(ttl=600)
    lease = await cell.run(lambda: one.lock(cell.name).acquire())
    waiter = cell.actor().start(lambda: other.lock(cell.name).acquire())
    await queued(cell, one, 1)
    with counting.commands(server) as commands, counting.requests(server) as requests:
        await cell.run(lease.release)
        following = await within(waiter)
    assert following.fence > lease.fence
    assert requests == {"evalsha": 1}
    assert commands["publish"] == 1


class Crowd:
    """Many tickets in one queue, past the waiting loop: what each of them hears is visible."""

    def __init__(self, url: str, name: str) -> None:
        self.engine = open_engine(url, AsyncioIO())
        self.name = name
        self.tickets: list[Ticket] = []

    async def join(self, count: int) -> None:
        for _ in range(count):
            ticket = Ticket(self.name, new_id(), 60.0, Owner("here", 1))
            await self.engine.enter(ticket, if_free=False, timeout=30)
            self.tickets.append(ticket)

    async def leave(self) -> None:
        assert await self.engine.leave(self.tickets.pop(0), timeout=30)

    async def heard(self, ticket: Ticket) -> Any:
        return await self.engine.park(ticket, 0.0)


async def test_a_hand_off_costs_the_same_for_any_number_of_waiters(
    server: RedisServer, record_property: Callable[[str, object], None]
) -> None:
    figures: dict[int, Counter[str]] = {}
    for waiting in (2, 50, 500):
        crowd = Crowd(server.url, f"crowd of {waiting}")
        await crowd.join(1 + waiting)
        with counting.commands(server) as figures[waiting]:
            await crowd.leave()
        first, *others = crowd.tickets
        standing = await crowd.heard(first)
        assert standing.place is Place.ADMITTED
        for other in others:
            assert await crowd.heard(other) is None, "a release wakes exactly one"
        await crowd.engine.close()
    record_property("commands per hand-off", str(figures))
    assert figures[2]["publish"] == 1
    assert figures[2] == figures[50] == figures[500]


async def test_joining_and_renewing_cost_the_same_for_any_number_of_waiters(
    server: RedisServer,
) -> None:
    figures: list[Counter[str]] = []
    for waiting in (2, 500):
        crowd = Crowd(server.url, f"crowd of {waiting}")
        await crowd.join(waiting)
        samples: list[Counter[str]] = []
        for _ in range(4):  # one join in 64 does more, by the server's clock
            with counting.commands(server) as seen:
                await crowd.join(1)
                await crowd.engine.renew(crowd.tickets[-1:], timeout=30)
                await crowd.engine.inspect(crowd.name, limit=0, timeout=30)
            samples.append(seen)
        figures.append(min(samples, key=Counter.total))
        await crowd.engine.close()
    assert figures[0] == figures[1]


@pytest.mark.parametrize("face", ["sync"])
async def test_100_threads_wait_and_one_is_woken(server: RedisServer, open_cell: OpenCell) -> None:
    cell = open_cell(server.url)
    client = cell.client(ttl=120)
    lease = await cell.run(lambda: client.lock(cell.name).acquire())
    waiters = [cell.actor().start(lambda: client.lock(cell.name).acquire()) for _ in range(100)]
    await soon(lambda: len(tickets(server, cell.name)) == 101, "100 waiting threads")
    with counting.commands(server) as commands:
        await cell.run(lease.release)
        await soon(lambda: any(waiter.done() for waiter in waiters), "one to be woken")
    assert commands["publish"] == 1
    assert sum(waiter.done() for waiter in waiters) == 1
    while waiters:
        following = await next_done(waiters)
        await cell.run(following.result().release)
