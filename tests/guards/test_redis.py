"""RedisGuard: check and write are one step, on one node, on Valkey and on a Cluster."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any, NamedTuple
from uuid import uuid4

import pytest
import redis
import redis.asyncio
from redis.crc import key_slot

from fencelock import StaleFence
from fencelock.guards import AsyncRedisGuard, RedisGuard
from fencelock.guards.redis import fence_key
from tests.guards.databases import settled
from tests.guards.lease_likes import FIRST, LeaseLike
from tests.servers import HOST

APPEND = "return redis.call('APPEND', KEYS[1], ARGV[1] .. ARGV[2])"


class Store(NamedTuple):
    """A client, sync or async, its guard, and a hash tag of the test's own."""

    client: Any
    guard: Any
    tag: str

    def key(self, text: str) -> str:
        return f"{{{self.tag}}}:{text}"

    async def get(self, key: str) -> bytes | None:
        value: bytes | None = await settled(self.client.get(key))
        return value


@pytest.fixture(params=["sync", "async"])
def face(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(params=["redis", "valkey", "cluster"])
async def store(request: pytest.FixtureRequest, face: str) -> AsyncIterator[Store]:
    if request.param == "cluster":
        port = request.getfixturevalue("redis_cluster").nodes[0].port
        kind: Any = redis.RedisCluster if face == "sync" else redis.asyncio.RedisCluster
        client = kind(host=HOST, port=port)
    else:
        url = request.getfixturevalue(f"{request.param}_url")
        client = (redis.Redis if face == "sync" else redis.asyncio.Redis).from_url(url)
    guard: Any = (RedisGuard if face == "sync" else AsyncRedisGuard)(client)
    yield Store(client, guard, uuid4().hex)
    await settled(client.close() if face == "sync" else client.aclose())


async def refused(result: Any) -> StaleFence:
    with pytest.raises(StaleFence) as caught:
        await settled(result())
    return caught.value


async def test_newer_holders_and_the_same_one_again(store: Store) -> None:
    key = store.key("x")
    for stamp, value in ((FIRST, "1"), (FIRST, "2"), (FIRST.newer(), "3"), (FIRST.newer(), "4")):
        await settled(store.guard.set(key, value, stamp))
        assert await store.get(key) == value.encode()


@pytest.mark.parametrize("stale", [FIRST, FIRST.newer().rival()], ids=["older", "same fence"])
async def test_a_stale_holder_changes_nothing(store: Store, stale: LeaseLike) -> None:
    guard, key, fields = store.guard, store.key("x"), store.key("h")
    await settled(guard.set(key, "good", FIRST.newer()))
    await settled(guard.hset(fields, {"field": "good"}, FIRST.newer()))
    error = await refused(lambda: guard.set(key, "stale", stale))
    assert (error.name, error.given, error.newest) == (FIRST.name, stale.fence, FIRST.fence + 1)
    await refused(lambda: guard.hset(fields, {"field": "stale"}, stale))
    await refused(lambda: guard.delete(key, lease=stale))
    await refused(lambda: guard.run(APPEND, [key], ["s", "tale"], stale))
    await refused(lambda: guard.raise_fence(stale, key))
    assert await store.get(key) == b"good"
    assert await settled(store.client.hget(fields, "field")) == b"good"


async def test_what_each_returns(store: Store) -> None:
    guard, key, fields = store.guard, store.key("x"), store.key("h")
    assert await settled(guard.set(key, 12.5, FIRST)) is None
    assert await settled(guard.run(APPEND, [key], ["", 5], FIRST)) == 5
    assert await store.get(key) == b"12.55"
    assert await settled(guard.hset(fields, {"a": 1, "b": b"\xff"}, FIRST)) == 2
    assert await settled(guard.hset(fields, {"a": 2}, FIRST)) == 0
    assert await settled(store.client.hget(fields, "b")) == b"\xff"
    assert await settled(guard.delete(key, fields, store.key("none"), lease=FIRST)) == 2


async def test_an_expiry(store: Store) -> None:
    await settled(store.guard.set(store.key("x"), "v", FIRST, px=600_000))
    assert 0 < await settled(store.client.pttl(store.key("x"))) <= 600_000


async def test_huge_fences(store: Store) -> None:
    """Lua's own numbers would take these for equal."""
    huge = FIRST._replace(fence=2**62)
    key = store.key("x")
    await settled(store.guard.set(key, "first", huge))
    await settled(store.guard.set(key, "newer", huge.newer()))
    error = await refused(lambda: store.guard.set(key, "stale", huge))
    assert error.newest == 2**62 + 1
    small = FIRST._replace(fence=9)  # more digits are more, whatever they begin with
    await refused(lambda: store.guard.set(key, "stale", small))


async def test_a_tag_is_fenced_as_a_whole(store: Store) -> None:
    await settled(store.guard.raise_fence(FIRST.newer(), store.key("x")))
    await refused(lambda: store.guard.set(store.key("y"), "stale", FIRST))


async def test_names_don_t_fence_one_another(store: Store) -> None:
    key = store.key("x")
    await settled(store.guard.set(key, "1", FIRST.newer()))
    await settled(store.guard.set(key, "2", FIRST._replace(name="another name")))


async def test_the_read_barrier_for_keys_of_several_slots(store: Store) -> None:
    keys = [f"{store.tag}:{number}" for number in range(10)]
    await settled(store.guard.raise_fence(FIRST.newer(), *keys))
    for key in keys:
        await refused(lambda key=key: store.guard.set(key, "stale", FIRST))
    kind: Any = type(store.guard)
    await settled(kind(store.client, keys=keys).raise_fence(FIRST.newer().newer()))
    for key in keys:
        await refused(lambda key=key: store.guard.set(key, "stale", FIRST.newer()))
    with pytest.raises(ValueError, match="name the keys"):
        await settled(store.guard.raise_fence(FIRST))


async def test_every_key_of_a_script_is_checked(redis_url: str) -> None:
    """Not only the first one: outside of a Cluster they may have fences of their own."""
    with redis.Redis.from_url(redis_url) as client:
        guard, (one, other) = RedisGuard(client), (uuid4().hex, uuid4().hex)
        guard.set(other, "good", FIRST.newer())
        await refused(lambda: guard.delete(one, other, lease=FIRST))
        assert client.get(other) == b"good"
        guard.set(one, "accepted", FIRST)  # what is refused has raised no fence either


async def test_an_error_in_somebody_s_script_is_theirs(store: Store) -> None:
    with pytest.raises(redis.ResponseError, match="mine"):
        await settled(
            store.guard.run("return redis.error_reply('mine')", [store.key("x")], [], FIRST)
        )


async def test_scripts_that_were_flushed(store: Store) -> None:
    await settled(store.guard.set(store.key("x"), "1", FIRST))
    await settled(store.client.script_flush())
    await settled(store.guard.set(store.key("x"), "2", FIRST))


def test_decoded_replies(redis_url: str) -> None:
    with redis.Redis.from_url(redis_url, decode_responses=True) as client:
        guard, key = RedisGuard(client), uuid4().hex
        guard.set(key, "1", FIRST.newer())
        with pytest.raises(StaleFence) as caught:
            guard.set(key, "2", FIRST)
    assert caught.value.newest == FIRST.fence + 1


@pytest.mark.parametrize("key", ["plain", "{tag}:x", "a{tag}b{c}", "{open", "x{{y}"])
def test_a_fence_stands_in_the_slot_of_its_key(key: str) -> None:
    assert key_slot(fence_key("name {with} braces", key).encode()) == key_slot(key.encode())


@pytest.mark.parametrize("key", ["", "a}b", "{}x", "x{}y}"])
def test_a_key_that_nothing_can_stand_beside(key: str) -> None:
    with pytest.raises(ValueError, match="give it a tag"):
        fence_key("name", key)


def test_no_key_at_all(redis_url: str) -> None:
    with redis.Redis.from_url(redis_url) as client, pytest.raises(ValueError, match="at least one"):
        RedisGuard(client).delete(lease=FIRST)
