"""Many locks at once: few connections, few writes, little memory."""

import asyncio
import gc
import threading
import tracemalloc
from collections.abc import Callable
from typing import Any

import pytest

import fencelock
from tests import counting
from tests.conformance.cells import Cell, OpenCell
from tests.effort import effort
from tests.engines.redis.server_state import connected, links
from tests.servers import RedisFactory, RedisServer
from tests.waiting import soon


@pytest.fixture
def server(redis_server: RedisFactory) -> RedisServer:
    return redis_server()


async def acquire_many(cell: Cell, client: Any, count: int) -> list[Any]:
    names = [f"{cell.name}:{number}" for number in range(count)]
    if cell.face == "sync":
        return [client.lock(name).acquire() for name in names]
    return list(await asyncio.gather(*(client.lock(name).acquire() for name in names)))


class Renewed:
    """Whether all leases were renewed since this was made."""

    def __init__(self, leases: list[Any]) -> None:
        self._leases = leases
        self._deadlines = [lease._claim.deadline for lease in leases]

    def __call__(self) -> bool:
        pairs = zip(self._leases, self._deadlines, strict=True)
        return all(lease._claim.deadline > before for lease, before in pairs)


async def test_1000_tasks_on_1000_names_share_one_connection(server: RedisServer) -> None:
    async with fencelock.AsyncClient(server.url) as client:

        async def work(number: int) -> int:
            fences = []
            for _ in range(3):
                async with client.lock(f"name {number}") as lease:
                    fences.append(lease.fence)
            assert fences == sorted(set(fences))
            return fences[-1]

        reads = server.info("stats")["total_reads_processed"]
        with counting.commands(server) as commands:
            await asyncio.gather(*(work(number) for number in range(1000)))
        reads = server.info("stats")["total_reads_processed"] - reads
        assert len(links(server)) == 1
    assert commands["evalsha"] == 6000
    assert reads < 6000 / 10, "requests of one turn of the event loop go out in one write"


async def test_a_burst_of_threads_keeps_few_connections(
    server: RedisServer, open_cell: OpenCell
) -> None:
    cell = open_cell(server.url)
    client = cell.client()
    actors = [cell.actor() for _ in range(60)]
    for _ in range(2):
        leases = await asyncio.gather(
            *(
                actor.do(client.lock(f"{cell.name}:{number}").acquire)
                for number, actor in enumerate(actors)
            )
        )
        for lease in leases:
            await cell.run(lease.release)
    assert len(links(server)) <= (16 if cell.face == "sync" else 1)


async def test_renewals_are_sent_together(server: RedisServer, open_cell: OpenCell) -> None:
    cell = open_cell(server.url)
    client = cell.client(ttl=15)
    threads = threading.active_count()
    leases = await acquire_many(cell, client, 2000)
    assert len(links(server)) <= 2
    assert threading.active_count() - threads <= 1, "one keeper"
    reads = server.info("stats")["total_reads_processed"]
    with counting.commands(server) as commands:
        await soon(Renewed(leases), "all to be renewed")
    reads = server.info("stats")["total_reads_processed"] - reads
    assert commands["evalsha"] >= 2000
    assert reads < commands["evalsha"] / 10, "a server reads 16 kB at a time"
    assert {lease.state for lease in leases} == {fencelock.LeaseState.HELD}


@pytest.mark.slow
@pytest.mark.parametrize("face", ["sync"])
async def test_thousands_of_leases_are_kept_by_one_thread(
    server: RedisServer, open_cell: OpenCell
) -> None:
    cell = open_cell(server.url)
    client = cell.client(ttl=12)
    leases = await asyncio.to_thread(
        lambda: [
            client.lock(f"{cell.name}:{number}").acquire()
            for number in range(effort(3_000, 10_000))
        ]
    )
    for _ in range(2):
        await soon(Renewed(leases), "all to be renewed")
    assert len(links(server)) <= 3
    assert {lease.state for lease in leases} == {fencelock.LeaseState.HELD}
    keepers = [one for one in threading.enumerate() if one.name.startswith("fencelock-")]
    assert [one.name for one in keepers] == ["fencelock-keeper"]


async def test_memory_per_lease(
    server: RedisServer, open_cell: OpenCell, record_property: Callable[[str, object], None]
) -> None:
    cell = open_cell(server.url)
    client, before_us = cell.client(), cell.client()
    await connected(cell, client)
    await acquire_many(cell, before_us, 2000)  # fills what is kept of any names, up to a limit
    await cell.run(before_us.close)
    gc.collect()
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        leases = await acquire_many(cell, client, 2000)
        gc.collect()
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    per_lease = (after - before) / len(leases)
    record_property("bytes per lease", f"{cell.face}: {per_lease:.0f}")
    print(f"{cell.face}: {per_lease:.0f} bytes per lease")
    assert per_lease < 2000
