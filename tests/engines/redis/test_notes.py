"""What is noted down for a name, and several names at once: what it costs, leaves behind and runs into."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from fencelock.core.errors import EngineError
from fencelock.core.ticket import ALONE, READING, Place, Ticket
from fencelock.engines.redis.engine import RedisEngine
from fencelock.engines.redis.keys import keys_of, note_of, tag_of
from fencelock.engines.registry import open_engine
from fencelock.io.asyncio import AsyncioIO
from fencelock.io.blocking import BlockingIO
from tests import counting
from tests.engines.redis.test_sharing import LIMIT, enter, expiring, joined, ticket
from tests.servers import VALKEY, ClusterSet, RedisFactory, RedisServer
from tests.waiting import soon

RECORD, QUEUE, TICKETS = keys_of("x")
(NOTE,) = note_of("x")
YEAR = 366 * 86_400.0


@pytest.fixture(params=["redis-server", VALKEY], ids=["redis", "valkey"])
def server(request: pytest.FixtureRequest, redis_server: RedisFactory) -> RedisServer:
    return redis_server(binary=request.param)


@pytest.fixture
async def engine(server: RedisServer) -> AsyncIterator[RedisEngine]:
    engine = open_engine(server.url, AsyncioIO())
    assert isinstance(engine, RedisEngine)
    yield engine
    await engine.close()


def wanted(count: int, name: str = "several") -> list[Ticket]:
    return [ticket(ALONE, name=f"{name}:{number}") for number in range(count)]


def reads(server: RedisServer) -> int:
    return int(server.info("stats")["total_reads_processed"])


@pytest.mark.parametrize("face", ["sync", "async"])
async def test_several_names_take_one_write(server: RedisServer, face: str) -> None:
    engine = open_engine(server.url, BlockingIO() if face == "sync" else AsyncioIO())
    await engine.enter(ticket(ALONE), if_free=True, timeout=LIMIT)
    before = reads(server)
    looking = reads(server) - before
    before = reads(server)
    standings = await engine.enter_free(wanted(20), timeout=LIMIT)
    assert reads(server) - before - looking == 1
    assert [one.place for one in standings] == [Place.ADMITTED] * 20
    await engine.close()


async def test_several_names_though_the_scripts_were_forgotten(
    server: RedisServer, engine: RedisEngine
) -> None:
    await joined(engine, 1)
    server.execute("SCRIPT", "FLUSH")
    standings = await engine.enter_free(wanted(3), timeout=LIMIT)
    assert [one.place for one in standings] == [Place.ADMITTED] * 3


async def test_trouble_with_one_of_several(server: RedisServer, engine: RedisEngine) -> None:
    """Nobody knows then which are held: the others can be asked for again, or given back."""
    tickets = wanted(3)
    server.execute("LPUSH", keys_of(tickets[1].name)[0], "not ours")
    with pytest.raises(EngineError, match="WRONGTYPE") as caught:
        await engine.enter_free(tickets, timeout=LIMIT)
    assert caught.value.outcome == "unknown"
    for one in tickets[::2]:
        assert await engine.leave(one, timeout=LIMIT)
    server.config(maxmemory=1)
    with pytest.raises(EngineError, match="memory is full") as caught:
        await engine.enter_free(tickets, timeout=LIMIT)
    assert caught.value.outcome == "not applied"


async def test_what_is_refused_is_not_asked_for_at_other_servers(redis_cluster: ClusterSet) -> None:
    engine = open_engine(redis_cluster.url, AsyncioIO())
    assert isinstance(engine, RedisEngine)
    tickets = wanted(9, "refused")
    nodes = [await engine._topology.node(tag_of(one.name), LIMIT) for one in tickets]
    assert len(set(nodes)) == 3
    taken = tickets[0]._replace(id="somebody else's")
    await enter(engine, taken)
    standings = await engine.enter_free(tickets, timeout=LIMIT)
    for standing, node in zip(standings[1:], nodes[1:], strict=True):
        assert standing.place is (Place.ADMITTED if node is nodes[0] else Place.REFUSED)
    assert await engine.leave(taken, timeout=LIMIT)
    standings = await engine.enter_free(tickets, timeout=LIMIT)
    assert [one.place for one in standings] == [Place.ADMITTED] * 9
    for one in tickets:
        assert await engine.leave(one, timeout=LIMIT)
    await engine.close()


async def test_a_note_takes_one_request_and_its_own_time(
    server: RedisServer, engine: RedisEngine
) -> None:
    (holder,) = await joined(engine, 1, ALONE)
    with counting.requests(server) as seen:
        assert await engine.remember(holder, "done", keep=YEAR, timeout=LIMIT)
        assert await engine.recall("x", timeout=LIMIT) == "done"
    assert seen == {"evalsha": 2}
    assert YEAR - 60 < server.execute("PTTL", NOTE) / 1000 <= YEAR
    assert await engine.leave(holder, timeout=LIMIT)
    server.execute("DEL", RECORD)  # as if the name had been forgotten
    assert await engine.recall("x", timeout=LIMIT) == "done"
    assert await engine.names("*", timeout=LIMIT) == []


async def test_a_note_ends_without_being_asked_for(
    server: RedisServer, engine: RedisEngine
) -> None:
    (holder,) = await joined(engine, 1, ALONE)
    assert await engine.remember(holder, "done", keep=0.0001, timeout=LIMIT)
    await soon(lambda: server.execute("DBSIZE") == 1, "the note to be cleaned up")
    assert server.execute("EXISTS", RECORD) == 1


async def test_each_ticket_that_shares_the_name_can_store_a_note(
    server: RedisServer, engine: RedisEngine
) -> None:
    one, other = await joined(engine, 2)
    (writer,) = await joined(engine, 1, ALONE)
    assert await engine.remember(one, "one's", keep=60, timeout=LIMIT)
    assert await engine.remember(other, "the other's", keep=60, timeout=LIMIT)
    assert not await engine.remember(writer, "the writer's", keep=60, timeout=LIMIT)
    assert await engine.leave(one, timeout=LIMIT)
    assert not await engine.remember(one, "one's", keep=60, timeout=LIMIT)
    server.execute("HDEL", TICKETS, other.id)  # as if the server evicted keys
    assert not await engine.remember(other, "one's", keep=60, timeout=LIMIT)
    assert await engine.recall("x", timeout=LIMIT) == "the other's"


async def test_an_expired_holder_notes_nothing_down_but_its_heir_does(
    server: RedisServer, engine: RedisEngine
) -> None:
    for share in (ALONE, READING):
        dead, heir = await expiring(server, engine, share, ALONE)

        async def over(dead: Ticket = dead) -> bool:
            return not await engine.remember(dead, "late", keep=60, timeout=LIMIT)

        await soon(over, "the holder to expire")
        assert await engine.remember(heir, "heir's", keep=60, timeout=LIMIT)
        assert await engine.recall("x", timeout=LIMIT) == "heir's"
        news = await engine.park(heir, engine._io.now() + 30)
        assert news is not None
        assert news.place is Place.ADMITTED
        server.execute("FLUSHALL")


async def test_full_memory_and_a_replica(server: RedisServer, engine: RedisEngine) -> None:
    (holder,) = await joined(engine, 1, ALONE)
    server.config(maxmemory=1)
    assert await engine.remember(holder, "done", keep=60, timeout=LIMIT), "the work was done"
    assert await engine.recall("x", timeout=LIMIT) == "done"
    server.config(maxmemory=0)
    server.execute("REPLICAOF", "127.0.0.1", "1")
    for _ in range(2):
        with pytest.raises(EngineError, match="this is a replica"):
            await engine.recall("x", timeout=LIMIT)
    server.execute("REPLICAOF", "NO", "ONE")
    assert await engine.recall("x", timeout=LIMIT) == "done"
