"""The case that guards exist for, with real processes: a holder is stopped for longer than its ttl.

Each store is tested with its guard and without: only the run without it proves that there is a danger.
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
"""The lock itself is in the storage, so an older holder is refused in any case."""


class Story:
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
def story(request: pytest.FixtureRequest, tmp_path: Path, redis_url: str) -> Iterator[Story]:
    kind = request.param
    if kind in SERVERS:
        where = request.getfixturevalue(f"{kind}_url")
    else:
        where = str(tmp_path if kind == "file" else tmp_path / "accounts.db")
    lock = where if kind in WITH_THE_LOCK else redis_url
    store = STORES[kind](where, f"story_{uuid4().hex}")
    store.set_up(100)
    with process(lock, kind, store) as first, process(lock, kind, store) as second:
        yield Story(kind, store, first, second)
    store.close()


@contextmanager
def process(url: str, kind: str, store: Store) -> Iterator[Child]:
    with Child(url, kind, store.where, store.name, program="tests.guards.story_process") as child:
        yield child


@pytest.mark.parametrize("guarded", [True, False], ids=["guarded", "unguarded"])
def test_a_holder_that_overslept_its_lease(story: Story, guarded: bool) -> None:
    story.acquire(story.first, ttl=TTL)
    assert story.first.call("read") == 100
    story.first.stop()
    story.acquire(story.second, ttl=30)  # when the ttl of the first process has passed
    assert story.second.call("read") == 100
    assert story.second.call("write", value=110, guarded=guarded) == "written"
    story.first.go_on()
    answer = story.first.call("write", value=101, guarded=guarded)
    if guarded:
        assert answer["error"] == "StaleFence"
        for fence in story.fences:
            assert str(fence) in answer["text"]
        assert story.store.read() == 110
        assert story.second.call("write", value=120, guarded=True) == "written"
    else:
        assert answer == "written"
        assert story.store.read() == 101, "what the second one had written is lost"


@pytest.mark.parametrize("barred", [True, False], ids=["barrier", "no barrier"])
def test_a_stale_write_between_reading_and_writing(story: Story, barred: bool) -> None:
    """A guard without a read barrier accepts it: the storage has not seen the newer fence yet."""
    story.acquire(story.first, ttl=TTL)
    story.first.stop()
    story.acquire(story.second, ttl=30)
    if barred:
        assert story.second.call("raise_fence") == "raised"
    assert story.second.call("read") == 100
    story.first.go_on()
    answer = story.first.call("write", value=101, guarded=True)
    assert story.second.call("write", value=110, guarded=True) == "written"
    assert story.store.read() == 110
    if barred or story.kind in WITH_THE_LOCK:
        assert answer["error"] == "StaleFence"
    else:
        assert answer == "written", "it was told that this is written, and it is lost"
