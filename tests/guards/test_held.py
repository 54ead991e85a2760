"""EtcdGuard and ZooKeeperGuard: they write only while the lock's own ticket is there."""

from __future__ import annotations

import base64
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any
from uuid import uuid4

import pytest
from kazoo.client import KazooClient
from kazoo.exceptions import NodeExistsError, NoNodeError

from fencelock import AsyncClient, Client, StaleFence, Unsupported
from fencelock.guards.etcd import AsyncEtcdGuard, EtcdGuard
from fencelock.guards.zookeeper import AsyncZooKeeperGuard, ZooKeeperGuard
from tests.conformance.cells import FACES
from tests.guards.databases import settled
from tests.guards.lease_likes import FIRST
from tests.servers_etcd import etcdctl

Act = Callable[[], Any]


def value_in(url: str, key: str) -> str:
    """What another client sees under a key; nothing if it is not there."""
    found = etcdctl(url.removeprefix("etcd://"), "get", key).get("kvs", [])
    return base64.b64decode(found[0].get("value", "")).decode() if found else ""


class Pair:
    """Two clients, both sync or both async, that share a lock."""

    def __init__(self, url: str, face: str) -> None:
        kind: Any = Client if face == "sync" else AsyncClient
        self.one, self.other = kind(url, ttl=30), kind(url, ttl=30)
        self.name = uuid4().hex

    async def overtaken(self) -> tuple[Any, Any]:
        """A lease that is over but does not know it yet, and the lease of the next holder."""
        old = await settled(self.one.lock(self.name).acquire())
        await settled(self.other.break_lock(self.name))
        return old, await settled(self.other.lock(self.name).acquire())

    async def close(self) -> None:
        await settled(self.one.close())
        await settled(self.other.close())


@pytest.fixture(params=FACES)
def face(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
async def on_etcd(face: str, etcd_url: str) -> AsyncIterator[Pair]:
    pair = Pair(etcd_url, face)
    yield pair
    await pair.close()


@pytest.fixture
async def on_zookeeper(face: str, zookeeper_url: str) -> AsyncIterator[Pair]:
    pair = Pair(zookeeper_url, face)
    yield pair
    await pair.close()


@pytest.fixture
def kazoo(zookeeper_url: str) -> Iterator[Any]:
    client = KazooClient(zookeeper_url.removeprefix("zookeeper://").partition("/")[0])
    client.start()
    yield client
    client.stop()
    client.close()


async def test_etcd_while_it_is_held(on_etcd: Pair, face: str, etcd_url: str) -> None:
    guard: Any = EtcdGuard() if face == "sync" else AsyncEtcdGuard()
    lease = await settled(on_etcd.one.lock(on_etcd.name, guard=guard).acquire())
    key = f"app/{on_etcd.name}"
    await settled(guard.put(key, "1", lease))
    await settled(guard.put(key, b"2", lease))
    assert value_in(etcd_url, key) == "2"
    await settled(guard.write({key: None, key + "/a": "a", key + "/b": "b"}, lease))
    assert [value_in(etcd_url, each) for each in (key, key + "/a", key + "/b")] == [
        "",
        "a",
        "b",
    ]
    await settled(guard.delete(key + "/a", lease))
    assert value_in(etcd_url, key + "/a") == ""
    with pytest.raises(ValueError, match="another prefix"):
        await settled(guard.put("fencelock/q/x", "1", lease))


async def test_etcd_once_it_is_over(on_etcd: Pair, face: str, etcd_url: str) -> None:
    guard: Any = EtcdGuard() if face == "sync" else AsyncEtcdGuard()
    old, new = await on_etcd.overtaken()
    key = f"app/{on_etcd.name}"
    await settled(guard.put(key, "good", new))
    acts: list[Act] = [
        lambda: guard.put(key, "stale", old),
        lambda: guard.delete(key, old),
        lambda: guard.raise_fence(old),
    ]
    for act in acts:
        with pytest.raises(StaleFence) as caught:
            await settled(act())
        assert (caught.value.given, caught.value.newest) == (old.fence, new.fence)
    assert value_in(etcd_url, key) == "good"
    await settled(new.release())
    with pytest.raises(StaleFence) as caught:
        await settled(guard.put(key, "late", new))
    assert caught.value.newest == 0, "nobody holds it now"


def newest(kazoo: Any, path: str) -> bytes | None:
    """What the ensemble has: the server that we ask may be behind the others."""
    kazoo.sync(path)
    return bytes(kazoo.get(path)[0]) if kazoo.exists(path) else None


async def test_zookeeper_while_it_is_held(on_zookeeper: Pair, face: str, kazoo: Any) -> None:
    guard: Any = ZooKeeperGuard() if face == "sync" else AsyncZooKeeperGuard()
    lease = await settled(on_zookeeper.one.lock(on_zookeeper.name).acquire())
    path = f"/app-{on_zookeeper.name}"
    await settled(guard.create(path, b"1", lease))
    assert newest(kazoo, path) == b"1"
    await settled(guard.set(path, b"2", lease))
    assert newest(kazoo, path) == b"2"
    with pytest.raises(NodeExistsError):
        await settled(guard.create(path, b"3", lease))
    await settled(guard.delete(path, lease))
    assert newest(kazoo, path) is None
    acts: list[Act] = [
        lambda: guard.set(path, b"", lease),
        lambda: guard.delete(path, lease),
    ]
    for act in acts:
        with pytest.raises(NoNodeError):
            await settled(act())


async def test_zookeeper_once_it_is_over(on_zookeeper: Pair, face: str, kazoo: Any) -> None:
    guard: Any = ZooKeeperGuard() if face == "sync" else AsyncZooKeeperGuard()
    old, new = await on_zookeeper.overtaken()
    path = f"/app-{on_zookeeper.name}"
    await settled(guard.create(path, b"good", new))
    acts: list[Act] = [
        lambda: guard.set(path, b"stale", old),
        lambda: guard.delete(path, old),
        lambda: guard.create(path + "-more", b"stale", old),
    ]
    for act in acts:
        with pytest.raises(StaleFence) as caught:
            await settled(act())
        assert (caught.value.given, caught.value.newest) == (old.fence, new.fence)
    assert newest(kazoo, path) == b"good"
    await settled(new.release())
    with pytest.raises(StaleFence):
        await settled(guard.set(path, b"late", new))
    kazoo.delete(path)


def test_a_lease_of_another_engine() -> None:
    with Client("memory://held") as client, client.lock("x") as lease:
        acts: list[Act] = [
            lambda: EtcdGuard().put("x", "1", lease),
            lambda: ZooKeeperGuard().set("/x", b"1", lease),
            lambda: EtcdGuard().put("x", "1", FIRST),
        ]
        for act in acts:
            with pytest.raises(Unsupported, match="on the same servers"):
                act()
