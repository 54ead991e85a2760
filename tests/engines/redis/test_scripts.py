"""What the scripts leave behind in Redis: fences that grow, keys that end, a living head."""

import asyncio
from collections.abc import AsyncIterator
from functools import partial

import pytest

from fencelock.core.ticket import ALONE, Owner, Place, Ticket
from fencelock.engines.redis.engine import RedisEngine
from fencelock.engines.redis.keys import keys_of, name_of, tag_of
from fencelock.engines.registry import open_engine
from fencelock.io.asyncio import AsyncioIO
from fencelock.primitives.waiting import new_id
from tests.engines.redis.server_state import record, tickets
from tests.engines.redis.test_sharing import expired, expiring
from tests.servers import RedisFactory, RedisServer
from tests.waiting import soon

HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS
RECORD, QUEUE, TICKETS = keys_of("x")


@pytest.fixture
def server(redis_server: RedisFactory) -> RedisServer:
    return redis_server()


@pytest.fixture
async def engine(server: RedisServer) -> AsyncIterator[RedisEngine]:
    engine = open_engine(server.url, AsyncioIO())
    assert isinstance(engine, RedisEngine)
    yield engine
    await engine.close()


def ticket(ttl: float = 30.0) -> Ticket:
    return Ticket("x", new_id(), ttl, Owner("here", 1))


async def enter(engine: RedisEngine, one: Ticket) -> int:
    return (await engine.enter(one, if_free=False, timeout=30)).fence


async def test_fences_grow_though_the_clock_was_set_back(
    server: RedisServer, engine: RedisEngine
) -> None:
    """As if an hour had been taken back since the last fence was handed out."""
    first = ticket()
    future = await enter(engine, first) + 3600 * 1_000_000
    await engine.leave(first, timeout=30)
    remember = "redis.call('SET', KEYS[1], cmsgpack.pack('h2', tonumber(ARGV[1]), 0))"
    server.execute("EVAL", remember, 1, RECORD, future)
    fences = []
    for _ in range(3):
        one = ticket()
        fences.append(await enter(engine, one))
        await engine.leave(one, timeout=30)
    assert fences == [future + 1, future + 2, future + 3]
    waiting = [ticket() for _ in range(3)]
    fences = [await enter(engine, one) for one in waiting]
    assert fences == [future + 4, future + 5, future + 6]
    assert tickets(server, "x") == [one.id for one in waiting]


async def test_fences_are_whole_numbers_to_the_last_digit(engine: RedisEngine) -> None:
    """Lua would print 1.7907768e+15."""
    fences = []
    for _ in range(50):
        one = ticket()
        fences.append(await enter(engine, one))
        await engine.leave(one, timeout=30)
    assert len(set(fences)) == 50
    assert fences == sorted(fences)
    assert all(fence > 1_700_000_000_000_000 for fence in fences), "microseconds since 1970"


async def test_keys_end_by_themselves(server: RedisServer, engine: RedisEngine) -> None:
    one, other = ticket(), ticket()
    await enter(engine, one)
    assert HOUR_MS < server.execute("PTTL", RECORD) <= DAY_MS
    assert server.execute("EXISTS", QUEUE, TICKETS) == 0, "nobody waits"
    await enter(engine, other)
    assert HOUR_MS < server.execute("PTTL", QUEUE) <= DAY_MS
    assert HOUR_MS < server.execute("PTTL", TICKETS) <= DAY_MS
    await engine.leave(one, timeout=30)
    assert HOUR_MS < server.execute("PTTL", RECORD) <= DAY_MS
    await engine.leave(other, timeout=30)
    assert server.execute("EXISTS", QUEUE, TICKETS) == 0
    assert 0 < server.execute("PTTL", RECORD) <= HOUR_MS, (
        "released: the last fence is kept for a while"
    )
    assert server.execute("STRLEN", RECORD) < 16, "and nothing else"


async def test_the_keys_of_a_queue_that_empties_and_fills_again_end_by_themselves(
    server: RedisServer, engine: RedisEngine
) -> None:
    """Two tickets take turns, so each time the queue is new. A waiter that dies leaves nothing for ever."""
    await enter(engine, holder := ticket())
    for _ in range(3):
        await enter(engine, following := ticket())
        assert HOUR_MS < server.execute("PTTL", QUEUE) <= DAY_MS
        assert HOUR_MS < server.execute("PTTL", TICKETS) <= DAY_MS
        await engine.leave(holder, timeout=30)
        assert server.execute("EXISTS", QUEUE, TICKETS) == 0
        holder = following


async def test_a_long_ttl_is_not_cut_short_by_others(
    server: RedisServer, engine: RedisEngine
) -> None:
    """A lease for a month must not end after a day because somebody with a short ttl came by."""
    month = 30 * 86_400.0
    long, short = ticket(month), ticket(1.0)
    await enter(engine, long)
    for _ in range(2):
        await enter(engine, short)
        await engine.renew([short], timeout=30)
        assert server.execute("PTTL", RECORD) > month * 1000
        assert server.execute("PTTL", QUEUE) > month * 1000
        assert server.execute("PTTL", TICKETS) > month * 1000
        await engine.leave(short, timeout=30)
    await engine.leave(long, timeout=30)
    assert server.execute("PTTL", RECORD) <= HOUR_MS
    await enter(engine, short)
    assert server.execute("PTTL", RECORD) <= DAY_MS, "and afterwards all is as before"


async def test_any_request_notices_a_dead_holder(server: RedisServer, engine: RedisEngine) -> None:
    """Joining, renewing, leaving, looking: each leaves a living head behind that knows it."""
    for act in ("enter", "renew", "leave", "leave unknown", "inspect"):
        _, heir, visitor = await expiring(server, engine, ALONE, ALONE, ALONE)
        await soon(partial(expired, server), "the holder to expire")
        if act == "enter":
            await enter(engine, visitor)
        elif act == "renew":
            await engine.renew([visitor], timeout=30)
        elif act == "leave":
            await engine.leave(visitor, timeout=30)
        elif act == "leave unknown":
            await engine.leave(ticket(), timeout=30)
        else:
            await engine.inspect("x", limit=9, timeout=30)
        assert record(server, "x").holder == heir.id, act
        told = await engine.park(heir, engine._io.now() + 5)
        assert told is not None, act
        assert (told.place, told.abandoned) == (Place.ADMITTED, True), act
        for one in (heir, visitor):
            await engine.leave(one, timeout=30)
            engine.unpark(one)


async def test_the_dead_between_the_living_are_taken_out(
    server: RedisServer, engine: RedisEngine
) -> None:
    holder, last = ticket(), ticket()
    dead = [ticket(0.1) for _ in range(20)]
    for one in (holder, *dead, last):
        await enter(engine, one)
    await asyncio.sleep(0.1)  # until the last of them has expired: the server's clock is under test
    (standing,) = await engine.renew([last], timeout=30)
    assert standing is not None
    assert standing.place is Place.WAITING
    assert standing.recheck > 5, "it minds the living one"
    assert tickets(server, "x") == [holder.id, last.id]
    assert server.execute("HKEYS", TICKETS) == [last.id], "nothing of them is left"


async def test_the_dead_behind_the_holder_are_skipped(
    server: RedisServer, engine: RedisEngine
) -> None:
    holder, last = ticket(), ticket()
    dead = [ticket(0.1) for _ in range(20)]
    for one in (holder, *dead, last):
        await enter(engine, one)
    await asyncio.sleep(0.1)  # until the last of them has expired: the server's clock is under test
    await engine.leave(holder, timeout=30)
    assert tickets(server, "x") == [last.id]
    told = await engine.park(last, engine._io.now() + 5)
    assert told is not None
    assert (told.place, told.abandoned) == (Place.ADMITTED, False), "they never held it"


async def test_a_new_waiter_looks_again_when_a_ticket_ahead_may_have_expired(
    engine: RedisEngine,
) -> None:
    async def recheck(ttl: float) -> tuple[Ticket, float]:
        one = ticket(ttl)
        return one, (await engine.enter(one, if_free=False, timeout=30)).recheck

    await enter(engine, ticket(1000))
    _, first = await recheck(500)
    assert 900 < first <= 1000, "when the holder expires"
    _, second = await recheck(5000)
    assert 400 < second <= 500, "when the one ahead does"
    last, third = await recheck(5000)
    # The holder, for that one may be the last ahead by then. But once in 64 times it is looked who is ahead,
    # and that one is known to mind the holder.
    assert 900 < third <= 1000 or 4900 < third <= 5000
    await engine.leave(last, timeout=30)
    _, fourth = await recheck(100)
    assert 900 < fourth <= 5000
    _, fifth = await recheck(100)
    assert 0 < fifth <= 100


async def test_a_new_waiter_behind_a_short_ticket_does_not_rely_on_a_longer_one_that_left(
    engine: RedisEngine,
) -> None:
    short, long = ticket(50), ticket(5000)
    for one in (ticket(1000), short, long):
        await enter(engine, one)
    await engine.leave(long, timeout=30)
    standing = await engine.enter(ticket(), if_free=False, timeout=30)
    assert 0 < standing.recheck <= 50


async def test_a_turn_takes_few_commands_however_many_wait(
    server: RedisServer, engine: RedisEngine
) -> None:
    """Each costs as much as all the rest of a script. Now and then the keys are prolonged, too."""

    def commands() -> int:
        return sum(one["calls"] for one in server.execute("INFO", "commandstats").values())

    waiting = [ticket() for _ in range(20)]
    for one in waiting:
        await enter(engine, one)
    least = 1000
    for one in waiting:
        before = commands()
        await engine.leave(one, timeout=30)
        await enter(engine, ticket())
        least = min(least, commands() - before)
    assert least == len(["HELLO", "INFO", "EVALSHA", "EVALSHA"]) + 7 + 5


async def test_leaving_behind_a_dead_holder_is_a_clean_release(
    server: RedisServer, engine: RedisEngine
) -> None:
    """It was its turn already, though nobody had noticed, and it gave it back."""
    _, heir = await expiring(server, engine, ALONE, ALONE)
    await soon(partial(expired, server), "the holder to expire")
    assert await engine.leave(heir, timeout=30)
    assert not (await engine.inspect("x", limit=9, timeout=30)).abandoned
    assert not (await engine.enter(ticket(), if_free=True, timeout=30)).abandoned


@pytest.mark.parametrize("name", ["x", "}", "{}", "%", "%7D", "%257D", "a}b%7Dc", "日本語}"])
def test_names_become_keys_and_back(name: str) -> None:
    key, *others = keys_of(tag_of(name))
    assert name_of(key.encode()) == name
    assert others == [key + ":q", key + ":w"]
    inside = key[key.index("{") + 1 : key.index("}")]
    assert inside == tag_of(name), "what a cluster looks at is all of it"
