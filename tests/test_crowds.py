"""Many contenders, many leases: nothing lost, nobody starved, and no more work per hand-off."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any
from uuid import uuid4

import psutil
import pytest

import fencelock
from tests import counting
from tests.effort import effort
from tests.servers import RedisFactory
from tests.spawning import Spawned
from tests.waiting import eventually, soon

pytestmark = pytest.mark.usefixtures("patient")

FACES = ("sync", "async")

CROWD = effort(5, 12)
"""How many processes. Most of their cost is their start."""

CHEAP = ("sqlite", "redis")
"""The engines that run both sync and async."""

LEASES = {"sqlite": effort(2_000, 10_000), "redis": effort(2_000, 10_000)}
LEASES |= {"postgresql": effort(500, 2_000), "mysql": effort(500, 2_000)}

SOCKETS = {"sqlite": 4, "redis": 4, "postgresql": 9, "mysql": 9}
"""The maximum number of connections for all these leases. On databases each connection has one request at a
time; a client has eight of them, and one to listen."""


@pytest.fixture(params=["sqlite", "redis", "redlock", "etcd", "zookeeper", "postgresql", "mysql"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/locks.db"
    return str(request.getfixturevalue(f"{request.param}_url"))


@pytest.fixture
def name() -> str:
    return f"crowd:{uuid4().hex}"


# Where sync and async use the same code to reach the server, one of them is enough.
@pytest.mark.parametrize(
    ("url", "face"),
    [(engine, face) for engine in CHEAP for face in FACES]
    + [("redlock", "sync"), ("redlock", "async"), ("etcd", "async"), ("zookeeper", "sync")]
    + [("postgresql", "async"), ("mysql", "sync")],
    indirect=["url"],
)
def test_processes_take_turns(url: str, name: str, face: str, tmp_path: Path) -> None:
    processes, turns = CROWD, 8
    (tmp_path / "counter").write_text("0")
    with fencelock.Client(url) as client, ExitStack() as running:
        # The lock is held until all have joined, so that the order of the first turns is known.
        gate = client.lock(name).acquire()
        crowd = []
        for _ in range(processes):
            arguments = [face, url, name, str(tmp_path), str(turns)]
            process = Spawned("tests.crowd", *arguments)
            running.callback(process.wait)
            running.callback(process.kill)
            crowd.append(process)
        eventually(lambda: client.inspect(name).waiting >= processes, "all of them to join")
        joined = [one.owner.pid for one in client.inspect(name).waiters]
        gate.release()
        assert [process.wait(timeout=120) for process in crowd] == [0] * processes
        assert not client.inspect(name).holders
        fifo = client.traits.fifo
    journal = [line.split() for line in (tmp_path / "journal").read_text().splitlines()]
    fences = [int(fence) for fence, _ in journal]
    pids = [int(pid) for _, pid in journal]
    assert int((tmp_path / "counter").read_text()) == processes * turns, "no update was lost"
    assert fences == sorted(set(fences)), "fences grew strictly in the order of grants"
    assert min(fences) > gate.fence
    if fifo:
        assert pids[:processes] == joined, "first come, first served"
    assert set(Counter(pids).values()) == {turns}


@pytest.mark.parametrize("waiters", [2, 50, 500])
async def test_work_per_hand_off_does_not_grow(
    redis_server: RedisFactory, name: str, waiters: int, record_property: Any
) -> None:
    """Requests from clients, commands and pushes per hand-off with 2, 50 and 500 waiters."""
    server = redis_server()
    async with fencelock.AsyncClient(server.url, ttl=600) as client:
        lock = client.lock(name)
        gate = await lock.acquire()
        order: list[int] = []
        hold = asyncio.Event()

        async def contend(number: int) -> None:
            async with lock:
                order.append(number)
                if len(order) > hand_offs:
                    await hold.wait()

        hand_offs = min(waiters, 100)
        tasks = [asyncio.create_task(contend(number)) for number in range(waiters + 1)]
        await soon(lambda: _waiting(client, name, waiters + 1), "everyone to wait")
        with counting.commands(server) as commands:
            await gate.release()
            await soon(lambda: len(order) > hand_offs, "the hand-offs")
        # One release per hand-off (the last holder still holds), and exactly one push per hand-off.
        assert commands["publish"] == hand_offs + 1
        assert commands["evalsha"] == hand_offs + 1
        per_hand_off = sum(commands.values()) / (hand_offs + 1)
        record_property("commands per hand-off, inside scripts too", per_hand_off)
        assert per_hand_off < 15, commands
        hold.set()
        await asyncio.gather(*tasks)
        assert order == list(range(waiters + 1))


@pytest.mark.parametrize("url", ["sqlite", "redis"], indirect=True)  # etcd has a test of its own
async def test_500_waiters_and_a_release_wakes_exactly_one(url: str, name: str) -> None:
    async with fencelock.AsyncClient(url, ttl=120) as client:
        gate = await client.lock(name).acquire()
        running: list[Any] = []

        async def contend() -> None:
            running.append(await client.lock(name).acquire())

        tasks = [asyncio.create_task(contend()) for _ in range(500)]
        await soon(lambda: _waiting(client, name, 500), "500 waiters")
        await gate.release()
        await soon(lambda: running, "the next holder")
        seen = await client.inspect(name)
        assert (len(running), seen.waiting) == (1, 499)
        for number in range(500):
            await soon(partial(_longer_than, running, number), f"holder {number}")
            await running[number].release()
        await asyncio.gather(*tasks)
        fences = [lease.fence for lease in running]
        assert fences == sorted(set(fences))


def test_100_threads_wait_and_are_served(url: str, name: str) -> None:
    with fencelock.Client(url, ttl=120) as client:
        gate = client.lock(name).acquire()
        fences: list[int] = []

        def contend() -> None:
            with client.lock(name) as lease:
                fences.append(lease.fence)

        threads = [threading.Thread(target=contend) for _ in range(100)]
        for thread in threads:
            thread.start()
        eventually(lambda: client.inspect(name).waiting == 100, "100 waiting threads")
        keepers = [one for one in threading.enumerate() if one.name == "fencelock-keeper"]
        assert len(keepers) == 1, "one keeper, however many wait"
        gate.release()
        for thread in threads:
            thread.join(60)
        assert len(fences) == 100
        assert fences == sorted(fences)


@pytest.mark.slow
@pytest.mark.parametrize("url", list(SOCKETS), indirect=True)
async def test_thousands_of_leases_are_kept_by_one_task(url: str, name: str) -> None:
    process, engine = psutil.Process(), url.partition(":")[0]
    threads, sockets = process.num_threads(), len(process.net_connections("all"))
    async with fencelock.AsyncClient(url, ttl=15) as client:
        leases: list[Any] = []
        for start in range(0, LEASES[engine], 500):
            names = [f"{name}:{number}" for number in range(start, start + 500)]
            leases += await asyncio.gather(*(client.lock(one).acquire() for one in names))
        assert process.num_threads() - threads <= 2
        opened = len(process.net_connections("all")) - sockets
        assert opened <= SOCKETS[engine], "not one per lease"
        first_deadlines = [lease._claim.deadline for lease in leases]
        await soon(
            lambda: all(
                lease._claim.deadline > first + 5
                for lease, first in zip(leases, first_deadlines, strict=True)
            ),
            "every lease to be renewed",
        )
        assert all(lease.state is fencelock.LeaseState.HELD for lease in leases)
        for start in range(0, len(leases), 500):
            await asyncio.gather(*(lease.release() for lease in leases[start : start + 500]))
        assert await client.names(f"{name}:*") == []


def _longer_than(items: list[Any], count: int) -> bool:
    return len(items) > count


async def _waiting(client: fencelock.AsyncClient, name: str, count: int) -> bool:
    return (await client.inspect(name, limit=0)).waiting >= count
