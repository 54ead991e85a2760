"""A server that forgets keys when its memory is full: a client says so, once, wherever it meets one."""

import pytest

from tests.conformance.cells import Cell, OpenCell, answered
from tests.engines.redis.impostors import Impostor, stale_sentinel
from tests.engines.redis.test_refusals import SECRET, rights
from tests.servers import RedisFactory, RedisServer
from tests.servers_redlock import RedlockSet
from tests.waiting import soon, within


@pytest.fixture
def server(redis_server: RedisFactory) -> RedisServer:
    return redis_server(maxmemory="1gb", maxmemory_policy="allkeys-lru")


async def hand_over(cell: Cell) -> None:
    """With a waiter, which in a blocking program has a connection of its own."""
    client = cell.client()
    lease = await cell.run(lambda: client.lock(cell.name).acquire())
    waiter = cell.actor().start(lambda: client.lock(cell.name).acquire())
    await answered(client, 2)
    await cell.run(lease.release)
    await within(waiter)


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [text for text in caplog.messages if "maxmemory-policy" in text]


async def test_a_policy_that_forgets(
    server: RedisServer, open_cell: OpenCell, caplog: pytest.LogCaptureFixture
) -> None:
    await hand_over(open_cell(server.url))
    (warning,) = warnings(caplog)
    assert f"{server.address}: maxmemory-policy is allkeys-lru" in warning
    assert "set it to noeviction" in warning


@pytest.mark.parametrize(("maxmemory", "policy"), [("1gb", "noeviction"), ("0", "allkeys-lru")])
async def test_a_server_that_never_forgets(
    redis_server: RedisFactory,
    open_cell: OpenCell,
    caplog: pytest.LogCaptureFixture,
    maxmemory: str,
    policy: str,
) -> None:
    server = redis_server(maxmemory=maxmemory, maxmemory_policy=policy)
    await hand_over(open_cell(server.url))
    assert warnings(caplog) == []


@pytest.mark.parametrize("forbidden", [(), ("-info",)])
async def test_a_user_that_may_not_ask(
    server: RedisServer,
    open_cell: OpenCell,
    caplog: pytest.LogCaptureFixture,
    forbidden: tuple[str, ...],
) -> None:
    """The rights in the documentation are enough to know; without them a lock is as good as ever."""
    await hand_over(open_cell(server.add_user("locks", SECRET, *rights(), *forbidden)))
    assert len(warnings(caplog)) == (0 if forbidden else 1)


async def test_behind_sentinel(
    server: RedisServer, open_cell: OpenCell, caplog: pytest.LogCaptureFixture
) -> None:
    with Impostor(stale_sentinel(server.port)) as sentinel:
        cell = open_cell(sentinel.url.replace("redis:", "redis+sentinel:") + "/mymaster")
        await hand_over(cell)
        await cell.close()
    assert len(warnings(caplog)) == 1


async def test_in_a_cluster(
    redis_server: RedisFactory, open_cell: OpenCell, caplog: pytest.LogCaptureFixture
) -> None:
    server = redis_server(cluster_enabled="yes", maxmemory="1gb", maxmemory_policy="allkeys-random")
    server.execute("CLUSTER", "ADDSLOTSRANGE", 0, 16383)
    await soon(lambda: "cluster_state:ok" in str(server.execute("CLUSTER", "INFO")), "the cluster")
    await hand_over(open_cell(server.url.replace("redis:", "redis+cluster:")))
    assert len(warnings(caplog)) == 1


async def test_a_node_of_redlock(
    redlock_private: RedlockSet, open_cell: OpenCell, caplog: pytest.LogCaptureFixture
) -> None:
    forgetful = redlock_private.nodes[1]
    forgetful.config(maxmemory="1gb", maxmemory_policy="volatile-lru")
    await hand_over(open_cell(redlock_private.url))
    (warning,) = warnings(caplog)
    assert f"{forgetful.address}: maxmemory-policy is volatile-lru" in warning
