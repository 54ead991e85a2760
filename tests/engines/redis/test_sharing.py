"""Several hold one name: what that costs, what it leaves behind, and what goes wrong with it."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator

import pytest

from fencelock.core.errors import EngineError
from fencelock.core.ticket import ALONE, READING, Owner, Place, Share, Standing, Ticket
from fencelock.engines.redis.engine import RedisEngine
from fencelock.engines.redis.keys import keys_of
from fencelock.engines.registry import open_engine
from fencelock.io.asyncio import AsyncioIO
from fencelock.io.blocking import BlockingIO
from fencelock.primitives.waiting import new_id
from tests import counting
from tests.engines.redis.server_state import links, record
from tests.engines.redis.test_refusals import rights
from tests.servers import VALKEY, RedisFactory, RedisServer
from tests.waiting import soon

RECORD, QUEUE, TICKETS = keys_of("x")
LIMIT = 5.0


@pytest.fixture(params=["redis-server", VALKEY], ids=["redis", "valkey"])
def server(request: pytest.FixtureRequest, redis_server: RedisFactory) -> RedisServer:
    return redis_server(binary=request.param)


@pytest.fixture
async def engine(server: RedisServer) -> AsyncIterator[RedisEngine]:
    engine = open_engine(server.url, AsyncioIO())
    assert isinstance(engine, RedisEngine)
    yield engine
    await engine.close()


def ticket(share: Share = READING, ttl: float = 60.0, name: str = "x") -> Ticket:
    return Ticket(name, new_id(), ttl, Owner("here", 1), share)


async def enter(engine: RedisEngine, one: Ticket) -> Standing:
    return await engine.enter(one, if_free=False, timeout=LIMIT)


async def joined(engine: RedisEngine, count: int, share: Share = READING) -> list[Ticket]:
    tickets = [ticket(share) for _ in range(count)]
    for one in tickets:
        await enter(engine, one)
    return tickets


async def expiring(server: RedisServer, engine: RedisEngine, *shares: Share) -> list[Ticket]:
    """A holder that is about to expire, and tickets that joined before that."""
    ttl = 0.05
    while True:
        dying, *others = ticket(shares[0], ttl), *(ticket(share) for share in shares[1:])
        await enter(engine, dying)
        expires = record(server, "x").expires
        for one in others:
            await enter(engine, one)
        if record(server, "x").expires == expires:
            return [dying, *others]
        server.execute("FLUSHALL")  # it had expired already: this machine was busy
        ttl *= 2


def expired(server: RedisServer) -> bool:
    """Whether the holder has expired, or the first of several: the record says when."""
    seconds, micros = server.execute("TIME")
    return record(server, "x").expires <= int(seconds) * 1_000_000 + int(micros)


@pytest.mark.parametrize(
    "share", [ALONE, READING, Share.of(3, 2)], ids=["mutex", "read", "permits"]
)
async def test_a_free_name_takes_three_commands_alone_or_shared(
    server: RedisServer, engine: RedisEngine, share: Share
) -> None:
    for free in ("unknown", "known"):
        one = ticket(share)
        with counting.commands(server) as entered:
            await enter(engine, one)
        with counting.commands(server) as left:
            await engine.leave(one, timeout=LIMIT)
        assert left == {"evalsha": 1, "time": 1, "get": 1, "set": 1}
        if free == "known":
            assert entered == left


async def test_the_cost_does_not_grow_with_holders_and_waiters(
    server: RedisServer, engine: RedisEngine
) -> None:
    figures: list[Counter[str]] = []
    for crowd in (3, 60):
        readers = await joined(engine, crowd)
        await joined(engine, 1, ALONE)
        waiters = await joined(engine, crowd)
        with counting.commands(server) as seen:
            await engine.renew([readers[1], waiters[-1]], timeout=LIMIT)
            await engine.leave(readers[0], timeout=LIMIT)
            await joined(engine, 1)
            await engine.leave(waiters[1], timeout=LIMIT)
        del seen["pexpire"]  # one that joins in 64 prolongs the keys, by chance
        figures.append(seen)
        server.execute("FLUSHALL")
    assert figures[0] == figures[1]


async def test_the_cost_of_a_permit_does_not_grow_with_the_permits_that_are_out(
    server: RedisServer, engine: RedisEngine
) -> None:
    figures: list[list[Counter[str]]] = []
    for limit in (5, 200):
        share, figure = Share.rate(limit, 600.0), []
        await joined(engine, limit - 1, share)
        for if_free in (False, True, False):
            with counting.commands(server) as seen:
                await engine.enter(ticket(share), if_free=if_free, timeout=LIMIT)
            figure.append(seen)
        figures.append(figure)
        server.execute("FLUSHALL")
    assert figures[0] == figures[1]
    assert figures[0][0] == dict.fromkeys(("evalsha", "time", "get", "zadd", "hset", "set"), 1)


async def test_the_keys_of_a_rate_outlive_its_permits(
    server: RedisServer, engine: RedisEngine
) -> None:
    days = 3 * 86_400.0
    await joined(engine, 2, Share.rate(9, 60.0))
    first = server.execute("PTTL", QUEUE)
    await joined(engine, 2, Share.rate(9, 60.0))
    assert int(server.execute("PTTL", QUEUE)) <= int(first), "they last for long enough"
    server.execute("FLUSHALL")
    await joined(engine, 3, Share.rate(9, days))
    for key in (RECORD, QUEUE, TICKETS):
        assert int(server.execute("PTTL", key)) > 1000 * days


async def test_a_release_pushes_to_the_tickets_that_it_admits(
    server: RedisServer, engine: RedisEngine
) -> None:
    (writer,) = await joined(engine, 1, ALONE)
    readers = await joined(engine, 3)
    (last,) = await joined(engine, 1, ALONE)
    with counting.commands(server) as commands, counting.requests(server) as requests:
        await engine.leave(writer, timeout=LIMIT)
        for reader in readers:
            news = await engine.park(reader, engine._io.now() + 30)
            assert news is not None
            assert news.place is Place.ADMITTED
    assert (requests, commands["publish"]) == ({"evalsha": 1}, 3)
    assert await engine.park(last, 0.0) is None


async def test_the_push_is_lost(engine: RedisEngine) -> None:
    (writer,) = await joined(engine, 1, ALONE)
    readers = await joined(engine, 2)
    for reader in readers:
        engine.unpark(reader)  # it does not listen any more
    await engine.leave(writer, timeout=LIMIT)
    places = [one.place for one in await engine.renew(readers, timeout=LIMIT) if one]
    assert places == [Place.ADMITTED] * 2
    assert (await enter(engine, readers[0])).place is Place.ADMITTED


async def test_one_of_several_holders_has_expired(server: RedisServer, engine: RedisEngine) -> None:
    """Whoever comes by notices, however long the others live."""
    for act in ("enter", "renew", "leave", "inspect"):
        dead, living, heir = await expiring(server, engine, *[Share.of(2)] * 3)
        await soon(lambda: expired(server), "the first one to expire")
        if act == "enter":
            await enter(engine, ticket(Share.of(2)))
        elif act == "renew":
            await engine.renew([living], timeout=LIMIT)
        elif act == "leave":
            assert not await engine.leave(dead, timeout=LIMIT)
        else:
            await engine.inspect("x", limit=0, timeout=LIMIT)
        news = await engine.park(heir, engine._io.now() + 30)
        assert news is not None, act
        assert (news.place, news.abandoned) == (Place.ADMITTED, False), act
        seen = await engine.inspect("x", limit=9, timeout=LIMIT)
        assert len(seen.holders) == 2
        assert min(one.expires_in for one in seen.holders) > 50, act
        server.execute("FLUSHALL")


async def test_nothing_is_left_behind(server: RedisServer, engine: RedisEngine) -> None:
    month = 30 * 86_400.0
    tickets = [ticket(), ticket(ttl=month), ticket(), ticket(ALONE)]
    for one in tickets:
        await enter(engine, one)
    for key in (RECORD, QUEUE, TICKETS):
        assert server.execute("PTTL", key) > month * 1000, "as long as the longest of them"
    for one in tickets:
        assert await engine.leave(one, timeout=LIMIT)
    assert server.execute("EXISTS", QUEUE, TICKETS) == 0
    assert server.execute("STRLEN", RECORD) < 16
    await joined(engine, 3)
    assert await engine.evict("x", timeout=LIMIT)
    assert server.execute("EXISTS", QUEUE, TICKETS) == 0


@pytest.mark.parametrize("lost", [RECORD, QUEUE, TICKETS], ids=["record", "queue", "tickets"])
async def test_a_server_that_drops_a_key(
    server: RedisServer, engine: RedisEngine, lost: str
) -> None:
    """As if it evicted keys: the holders are told so, and the others go on after a while."""
    readers = [ticket(ttl=2), ticket(ttl=2)]
    for one in readers:
        await enter(engine, one)
    server.execute("DEL", lost)
    standings = await engine.renew(readers, timeout=LIMIT)
    assert [one.place for one in standings if one] == [Place.GONE] * 2
    writer = ticket(ALONE)

    async def admitted() -> bool:
        return (await enter(engine, writer)).place is Place.ADMITTED

    await soon(admitted, "the writer's turn")
    standings = await engine.renew(readers, timeout=LIMIT)
    assert [one.place for one in standings if one] == [Place.GONE] * 2
    assert await engine.leave(writer, timeout=LIMIT)
    assert (await enter(engine, ticket(Share.of(1)))).place is Place.ADMITTED


async def test_a_record_of_another_version_is_refused(
    server: RedisServer, engine: RedisEngine
) -> None:
    server.execute("EVAL", "redis.call('SET', KEYS[1], cmsgpack.pack('h3', 1, 0))", 1, RECORD)
    with pytest.raises(EngineError, match="not written by this version"):
        await enter(engine, ticket())


async def test_a_floor_that_is_too_high(engine: RedisEngine) -> None:
    with pytest.raises(EngineError, match="can't hand out a fence above") as caught:
        await enter(engine, ticket()._replace(floor=2**60))
    assert caught.value.outcome == "not applied"
    assert (await enter(engine, ticket()._replace(floor=2**52 - 1))).fence == 2**52


@pytest.mark.parametrize("face", ["sync", "async"])
async def test_an_interrupted_waiter_loses_no_wake_up(server: RedisServer, face: str) -> None:
    engine = open_engine(server.url, BlockingIO() if face == "sync" else AsyncioIO())
    holder, waiter, stranger = ticket(ALONE), ticket(ALONE), ticket(ALONE)
    await engine.enter(holder, if_free=False, timeout=LIMIT)
    await engine.enter(waiter, if_free=False, timeout=LIMIT)
    engine.interrupt(stranger)
    engine.interrupt(waiter)
    await asyncio.sleep(0)
    assert await engine.park(waiter, 0.0) is None
    standing = await engine.enter(waiter, if_free=False, timeout=LIMIT)
    assert standing.place is Place.WAITING
    await engine.leave(holder, timeout=LIMIT)
    news = await engine.park(waiter, engine._io.now() + 30)  # type: ignore[attr-defined]
    assert news is not None
    assert news.place is Place.ADMITTED
    engine.unpark(waiter)
    assert len(links(server)) == (2 if face == "sync" else 1), "others were left alone"
    await engine.close()


async def test_the_rights_in_the_documentation_are_enough(redis_server: RedisFactory) -> None:
    url = redis_server().add_user("locks", "secret", *rights())
    engine = open_engine(url, AsyncioIO())
    assert isinstance(engine, RedisEngine)
    (writer,) = await joined(engine, 1, ALONE)
    await enter(engine, writer._replace(share=READING))
    readers = [writer, *await joined(engine, 2)]
    (heir,) = await joined(engine, 1, ALONE)
    assert len((await engine.inspect("x", limit=9, timeout=LIMIT)).holders) == 3
    assert await engine.remember(writer, "done", keep=60, timeout=LIMIT)
    assert await engine.recall("x", timeout=LIMIT) == "done"
    await engine.enter_free([ticket(name="y"), ticket(ALONE, name="z")], timeout=LIMIT)
    await engine.renew([*readers, heir], timeout=LIMIT)
    for one in readers:
        assert await engine.leave(one, timeout=LIMIT)
    await joined(engine, 2)
    assert await engine.evict("x", timeout=LIMIT)
    assert await engine.evict("x", timeout=LIMIT)
    assert not await engine.evict("x", timeout=LIMIT)
    await engine.close()
