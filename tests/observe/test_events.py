"""What happens to a lock, as its observers hear it."""

from __future__ import annotations

import asyncio
import math
import shutil
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

import fencelock
from fencelock import observe
from fencelock.engines.observed import ObservedEngine
from fencelock.guards.files import FencedFile
from fencelock.guards.lease_like import RemoteLease
from fencelock.observe import audience
from tests.observe.recorder import Recorder
from tests.proxy import TcpProxy
from tests.servers import HOST, RedisServer
from tests.servers_etcd import EtcdCluster
from tests.waiting import eventually, soon


@pytest.fixture
def heard() -> Recorder:
    return Recorder()


@pytest.fixture
def client(redis_url: str, heard: Recorder) -> Any:
    with fencelock.Client(redis_url, ttl=20, observers=[heard], label="till 3") as client:
        yield client


@pytest.fixture
def name() -> str:
    return uuid4().hex


def test_a_lock_that_is_free(client: fencelock.Client, heard: Recorder, name: str) -> None:
    with client.lock(name, timeout=9) as lease:
        pass
    asked, entered, granted, left, released = heard.events
    assert isinstance(asked, observe.Asked)
    assert (asked.name, asked.engine, asked.kind) == (name, "redis", "lock")
    assert (asked.owner, asked.timeout) == (lease.owner, 9)
    assert isinstance(granted, observe.Granted)
    assert (granted.ticket, granted.fence, granted.abandoned) == (asked.ticket, lease.fence, False)
    assert isinstance(released, observe.Released)
    assert (released.ticket, released.fence, released.closed) == (asked.ticket, lease.fence, False)
    for request, operation in ((entered, "enter"), (left, "leave")):
        assert isinstance(request, observe.EngineRequest)
        assert (request.engine, request.operation, request.outcome) == ("redis", operation, "ok")
    assert 0 < entered.seconds < granted.waited  # type: ignore[attr-defined]
    assert released.held_for > left.seconds  # type: ignore[attr-defined]
    assert lease.id not in repr(heard.events)


def test_a_lock_that_is_not_free(client: fencelock.Client, heard: Recorder, name: str) -> None:
    with fencelock.Client("memory://") as _, client.lock(name):
        heard.events.clear()
        taken = threading.Thread(target=lambda: client.lock(name).try_acquire())
        taken.start()
        taken.join()
        assert heard.words() == ["Asked", "Refused"]
        heard.events.clear()

        def wait() -> None:
            with pytest.raises(fencelock.LockTimeout):
                client.lock(name).acquire(timeout=0.05)

        waiting = threading.Thread(target=wait)
        waiting.start()
        waiting.join()
        assert heard.words() == ["Asked", "Queued", "TimedOut"]
        assert heard.heard(observe.TimedOut)[0].waited >= 0.05


@pytest.mark.parametrize("kind", ["read", "semaphore"])
def test_locks_that_are_shared(
    client: fencelock.Client, heard: Recorder, name: str, kind: str
) -> None:
    lock = client.rwlock(name).read() if kind == "read" else client.semaphore(name, 2)
    with lock:
        pass
    assert {event.kind for event in heard.heard(observe.TicketEvent)} == {kind}


def test_a_lock_that_is_broken(client: fencelock.Client, heard: Recorder, name: str) -> None:
    with pytest.raises(fencelock.LeaseLost), client.lock(name):
        client.break_lock(name)
    assert heard.words() == ["Asked", "Granted", "Broken", "Lost"]
    (lost,), (broken,) = heard.heard(observe.Lost), heard.heard(observe.Broken)
    assert lost.reason == "evicted"
    assert broken.owner.label == "till 3"
    with client.lock(name):
        assert heard.heard(observe.Granted)[-1].abandoned


def test_a_lease_that_is_dropped(client: fencelock.Client, heard: Recorder, name: str) -> None:
    client.lock(name, ttl=1).acquire()
    eventually(lambda: heard.heard(observe.Lost), "the loss")
    assert [lost.reason for lost in heard.heard(observe.Lost)] == ["dropped"]
    assert not heard.oddities()


def test_a_client_that_is_closed(redis_url: str, heard: Recorder, name: str) -> None:
    client = fencelock.Client(redis_url, observers=[heard])
    lease = client.lock(name).acquire()
    client.close()
    assert heard.words() == ["Asked", "Granted", "Released"]
    assert heard.heard(observe.Released)[0].closed
    assert lease.lost.is_set()


async def test_a_caller_that_gives_up(redis_url: str, heard: Recorder, name: str) -> None:
    async with fencelock.AsyncClient(redis_url, observers=[heard]) as client, client.lock(name):
        waiting = asyncio.create_task(client.lock(name).acquire())
        await soon(lambda: heard.heard(observe.Queued), "the waiter")
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        assert len(heard.heard(observe.GaveUp)) == 1
    assert not heard.oddities()


async def test_a_request_that_is_cancelled(heard: Recorder) -> None:
    async with fencelock.AsyncClient("memory://", observers=[heard]) as client:
        engine = client._context.engine
        assert isinstance(engine, ObservedEngine)
        asking = asyncio.create_task(engine._timed("inspect", asyncio.sleep(3600)))
        await asyncio.sleep(0)
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
    (request,) = heard.heard(observe.EngineRequest)
    assert (request.operation, request.outcome) == ("inspect", "cancelled")


async def test_a_loop_that_is_blocked(heard: Recorder, name: str) -> None:
    client = fencelock.AsyncClient(f"memory://{name}", ttl=0.6, observers=[heard])
    async with client:
        lease = await client.lock(name).acquire()
        await soon(lambda: heard.heard(observe.Renewed), "a renewal")
        time.sleep(1.5)  # noqa: ASYNC251 - this is what it is about
        await soon(lambda: heard.heard(observe.Paused), "the pause")
        with pytest.raises(fencelock.LeaseLost):
            await lease.release()
    assert heard.heard(observe.Paused)[0].seconds >= 0.5
    assert [lost.reason for lost in heard.heard(observe.Lost)] == ["expired"]
    assert all(0 < each.margin < 0.6 for each in heard.heard(observe.Renewed))


def test_an_engine_that_is_away_for_a_moment(
    redis_server: Callable[[], RedisServer],
    tcp_proxy: Callable[[int], TcpProxy],
    heard: Recorder,
    name: str,
) -> None:
    way = tcp_proxy(redis_server().port)
    way_url = f"redis://{HOST}:{way.port}"
    with fencelock.Client(way_url, ttl=6, observers=[heard]) as client, client.lock(name):
        way.refuse()
        with pytest.raises(fencelock.EngineError):
            client.lock("another").acquire(timeout=0.5)
        assert heard.words()[-2:] == ["Asked", "Failed"]
        eventually(lambda: heard.heard(observe.Suspended), "the suspension")
        way.heal()
        eventually(lambda: heard.heard(observe.Resumed), "the engine to be back")
    failed = [each for each in heard.heard(observe.EngineRequest) if each.outcome != "ok"]
    assert {each.outcome for each in failed} <= {"not applied", "unknown"}
    assert {"enter", "renew"} <= {each.operation for each in failed}
    assert not heard.oddities()


def test_several_locks_of_which_one_is_not_free(
    client: fencelock.Client, heard: Recorder, name: str, redis_url: str
) -> None:
    with fencelock.Client(redis_url) as other, other.lock(f"{name}:b"):
        assert client.lock_all([f"{name}:a", f"{name}:b"]).try_acquire() is None
    assert heard.words() == ["Asked", "Granted", "Asked", "Refused", "Released"]


def test_engines_are_told_apart(heard: Recorder, tmp_path: Path) -> None:
    routes = {"a*": "memory://", "*": f"sqlite:///{tmp_path}/locks.db"}
    with (
        fencelock.Client(routes, observers=[heard]) as client,
        client.lock("apple"),
        client.lock("pear"),
    ):
        pass
    seen = {event.name: event.engine for event in heard.heard(observe.TicketEvent)}
    assert seen == {"apple": "memory", "pear": "sqlite"}
    assert {request.engine for request in heard.heard(observe.EngineRequest)} == set(seen.values())


def test_a_stale_holder_is_refused(
    client: fencelock.Client, heard: Recorder, name: str, tmp_path: Path
) -> None:
    everywhere = Recorder()
    observe.add(everywhere)
    try:
        file = FencedFile(tmp_path / "report")
        with client.lock(name) as lease:
            remote = RemoteLease(name, lease.fence - 1, "f" * 32)
            file.write(b"new", lease)
            with pytest.raises(fencelock.StaleFence):
                file.write(b"old", remote)
            assert heard.heard(observe.StaleFence) == []  # it is not known whose lease this was
            stale = observe.StaleFence(name, "file", lease.fence - 1, lease.fence)
            assert everywhere.heard(observe.StaleFence) == [stale]
            file.write(b"newer", RemoteLease(name, lease.fence + 1, "f" * 32))
            with pytest.raises(fencelock.StaleFence):
                file.write(b"old", lease)
        (stale,) = heard.heard(observe.StaleFence)
        assert (stale.given, stale.newest) == (lease.fence, lease.fence + 1)
        assert len(everywhere.heard(observe.StaleFence)) == 2
    finally:
        observe.remove(everywhere)


@pytest.mark.slow
def test_fences_that_fall(heard: Recorder, tmp_path: Path, name: str) -> None:
    """An etcd that lost its data begins to count again."""
    fences: list[int] = []
    with EtcdCluster(tmp_path, size=1) as cluster:
        (member,) = cluster.members
        with fencelock.Client(cluster.url, observers=[heard]) as client:
            for _ in range(3):
                with client.lock(name) as lease:
                    fences.append(lease.fence)
            assert not heard.heard(observe.FenceFell)
            member.kill()
            shutil.rmtree(member.folder / "data")
            member.start()

            def taken() -> bool:
                try:
                    with client.lock(name, timeout=1):
                        return True
                except (fencelock.EngineError, fencelock.LeaseLost):
                    return False

            eventually(taken, "etcd to work again")
        (fell, *_) = heard.heard(observe.FenceFell)
        assert (fell.name, fell.engine, fell.newest) == (name, "etcd", fences[-1])
        assert fell.fence <= fences[-1]


def test_the_fences_of_some_names_are_remembered(
    heard: Recorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(audience, "_REMEMBERED", 2)
    with fencelock.Client("memory://", observers=[heard]) as client:
        for name in "abcbd":
            with client.lock(name):
                pass
        assert list(client._audience.fences) == ["c", "d"]


def test_the_same_fence_again_is_a_fall(heard: Recorder) -> None:
    with fencelock.Client("memory://", observers=[heard]) as client:
        with client.lock("x") as lease:
            pass
        again = client.lock("x")._new(client._context, object(), [])
        sighting = client._context.sighting
        assert sighting is not None
        again.sighting = sighting(again, math.inf, 0.0)
        again.fence = lease.fence
        again.sighting.granted(again, 1.0)
        (fell,) = heard.heard(observe.FenceFell)
        assert (fell.fence, fell.newest) == (lease.fence, lease.fence)


def test_a_slow_answer_is_no_fall(heard: Recorder) -> None:
    """What counts is what was known before the request was sent."""
    with fencelock.Client("memory://", observers=[heard]) as client:
        first = client.semaphore("slow", 2).acquire()
        late = client.semaphore("slow", 2)._new(client._context, object(), [])
        sighting = client._context.sighting
        assert sighting is not None
        late.sighting = sighting(late, math.inf, 0.0)  # it has asked, and its answer is under way
        late.fence = first.fence + 1
        client._audience.saw_fence("slow", first.fence + 2)  # another one is faster
        late.sighting.granted(late, 1.0)
        assert not heard.heard(observe.FenceFell)
        first.release()
