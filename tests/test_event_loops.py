"""One AsyncClient in several event loops, one after the other and at the same time, on every engine."""

from __future__ import annotations

import asyncio
import gc
import threading
import warnings
from pathlib import Path
from uuid import uuid4

import pytest

import fencelock
from tests.waiting import PATIENCE, eventually

ENGINES = ["sqlite", "redis", "redlock", "etcd", "zookeeper", "postgresql", "mysql", "http"]


@pytest.fixture(params=ENGINES)
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/locks.db"
    if request.param == "http":
        return str(request.getfixturevalue("replica_of")("redis").url)
    found: str = request.getfixturevalue(f"{request.param}_url")
    return found


def _left_over() -> list[threading.Thread]:
    """The threads of kazoo: with asyncio, no other engine has threads that go on by themselves."""
    return [one for one in threading.enumerate() if "zk_loop" in one.name]


async def acquired(client: fencelock.AsyncClient, name: str) -> fencelock.AsyncLease:
    return await client.lock(name, ttl=30).acquire(timeout=PATIENCE)


async def used(client: fencelock.AsyncClient, name: str, *, close: bool) -> int:
    async with client.lock(name, ttl=30, timeout=PATIENCE) as lease:
        fence = lease.fence
    if close:
        await client.close()
    return fence


def test_one_loop_after_the_other(url: str) -> None:
    client, name = fencelock.AsyncClient(url), f"loops:{uuid4().hex}"
    first = asyncio.run(used(client, name, close=True))
    second = asyncio.run(used(client, name, close=True))
    assert second > first, "closed in one loop, it works in the next"


def test_a_loop_that_ended_before_its_client_was_closed(url: str) -> None:
    client, name = fencelock.AsyncClient(url), f"loops:{uuid4().hex}"
    lease = asyncio.run(acquired(client, f"{name}:left"))
    assert asyncio.run(used(client, name, close=True))
    assert lease.state is fencelock.LeaseState.LOST, "nobody renews it any more"
    assert "event loop has ended" in str(lease._loss())
    eventually(lambda: not _left_over(), "the threads of the loop that ended")
    with pytest.raises(fencelock.FencelockError, match="another event loop"):
        asyncio.run(lease.release())
    with warnings.catch_warnings():  # Python complains about the sockets, and rightly so
        warnings.simplefilter("ignore", ResourceWarning)
        del lease
        gc.collect()


def test_two_loops_at_the_same_time(url: str) -> None:
    """Both take turns with one name, and each has its own connections and its own keeper."""
    client, name = fencelock.AsyncClient(url), f"loops:{uuid4().hex}"
    fences: list[int] = []
    errors: list[BaseException] = []

    async def turns() -> None:
        for _ in range(5):
            fences.append(await used(client, name, close=False))
        await client.close()

    def loop() -> None:
        try:
            asyncio.run(turns())
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=loop) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
    assert not errors
    assert sorted(set(fences)) == sorted(fences)
    assert len(fences) == 10
