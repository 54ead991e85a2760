"""The story that guards exist for, with real processes: a holder is stopped for longer than its lease lives.

It is told on every guard, and once without each: a story in which nothing goes wrong proves nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4

import pytest

from tests.child import Child
from tests.guards.stores import STORES, Store

TTL = 0.5
SERVERS = ("postgresql", "mysql", "redis", "etcd", "zookeeper")
WITH_THE_LOCK = ("etcd", "zookeeper")
"""Where the lock itself stands in the storage, so that an older holder is refused in any case."""


class Stage:
    """A store with 100 in it, and two processes that share a lock."""

    def __init__(self, kind: str, store: Store, first: Child, second: Child) -> None:
        self.kind = kind
        self.store = store
        self.first, self.second = first, second
        self.fences: list[int] = []

    def acquire(self, child: Child, ttl: float) -> None:
        self.fences.append(child.call("acquire", name=self.store.name, ttl=ttl)["fence"])
        assert self.fences == sorted(self.fences)


@pytest.fixture(params=STORES)
def stage(request: pytest.FixtureRequest, tmp_path: Path, redis_url: str) -> Iterator[Stage]:
    kind = request.param
    if kind in SERVERS:
        where = request.getfixturevalue(f"{kind}_url")
    else:
        where = str(tmp_path if kind == "file" else tmp_path / "accounts.db")
    lock = where if kind in WITH_THE_LOCK else redis_url
    store = STORES[kind](where, f"story_{uuid4().hex}")
    store.set_up(100)
    with player(lock, kind, store) as first, player(lock, kind, store) as second:
        yield Stage(kind, store, first, second)
    store.close()


@contextmanager
def player(url: str, kind: str, store: Store) -> Iterator[Child]:
    with Child(url, kind, store.where, store.name, program="tests.guards.player") as child:
        yield child


@pytest.mark.parametrize("guarded", [True, False], ids=["guarded", "unguarded"])
def test_a_holder_that_overslept_its_lease(stage: Stage, guarded: bool) -> None:
    stage.acquire(stage.first, ttl=TTL)
    assert stage.first.call("read") == 100
    stage.first.stop()
    stage.acquire(stage.second, ttl=30)  # once the first one's ttl has passed
    assert stage.second.call("read") == 100
    assert stage.second.call("write", value=110, guarded=guarded) == "written"
    stage.first.go_on()
    answer = stage.first.call("write", value=101, guarded=guarded)
    if guarded:
        assert answer["error"] == "StaleFence"
        for fence in stage.fences:
            assert str(fence) in answer["text"]
        assert stage.store.read() == 110
        assert stage.second.call("write", value=120, guarded=True) == "written"
    else:
        assert answer == "written"
        assert stage.store.read() == 101, "what the second one had written is lost"


@pytest.mark.parametrize("barred", [True, False], ids=["barrier", "no barrier"])
def test_a_stale_write_between_reading_and_writing(stage: Stage, barred: bool) -> None:
    """Guards alone let it happen: the storage has not heard of the newer holder yet."""
    stage.acquire(stage.first, ttl=TTL)
    stage.first.stop()
    stage.acquire(stage.second, ttl=30)
    if barred:
        assert stage.second.call("raise_fence") == "raised"
    assert stage.second.call("read") == 100
    stage.first.go_on()
    answer = stage.first.call("write", value=101, guarded=True)
    assert stage.second.call("write", value=110, guarded=True) == "written"
    assert stage.store.read() == 110
    if barred or stage.kind in WITH_THE_LOCK:
        assert answer["error"] == "StaleFence"
    else:
        assert answer == "written", "it was told that this is written, and it is lost"
