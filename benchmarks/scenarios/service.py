"""The lock service in front of Redis: what the way through it costs, and what its rivals cost."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import psutil

import fencelock
from benchmarks.adapters.contract import AsyncTurns, Turns
from benchmarks.adapters.ours import AsyncFencelock, Fencelock
from benchmarks.adapters.rivals.etcd_gateway import EtcdGateway
from benchmarks.adapters.rivals.redis_py import RedisPyLock
from benchmarks.crew import Crew
from benchmarks.hand_offs import Contest, measure
from benchmarks.pairs import measure_async_pairs, measure_pairs
from benchmarks.rounds import Table, interleave
from benchmarks.scenarios.redis_pair import one_core
from benchmarks.setting import Setting, scenario
from benchmarks.turns import Pace
from tests.servers_service import Replica

REDIS, SERVICE, ETCD = range(3)
"""The places of the URLs in the text that contestants get instead of one URL."""


class Direct(Fencelock):
    label = "Fencelock on Redis directly"

    def _client(self, url: str) -> fencelock.Client:
        return super()._client(url.split()[REDIS])


class ThroughService(Fencelock):
    label = "Fencelock through the service"

    def _client(self, url: str) -> fencelock.Client:
        return super()._client(url.split()[SERVICE])


class RedisPyLockDirect(RedisPyLock):
    def __init__(self, url: str, name: str, seat: int = 0, seats: int = 1) -> None:
        super().__init__(url.split()[REDIS], name, seat, seats)


class Gateway(EtcdGateway):
    def __init__(self, url: str, name: str, seat: int = 0, seats: int = 1) -> None:
        super().__init__(url.split()[ETCD], name, seat, seats)


class AsyncDirect(AsyncFencelock):
    label = Direct.label

    @classmethod
    async def connect(cls, url: str, name: str) -> Any:
        return await super().connect(url.split()[REDIS], name)


class AsyncThroughService(AsyncFencelock):
    label = ThroughService.label

    @classmethod
    async def connect(cls, url: str, name: str) -> Any:
        return await super().connect(url.split()[SERVICE], name)


SYNC: Sequence[type[Turns]] = (ThroughService, Direct, RedisPyLockDirect, Gateway)
ASYNC: Sequence[type[AsyncTurns]] = (AsyncThroughService, AsyncDirect)
GOALS = {Direct.label: 1 / 4.5, Gateway.label: 3.0}


@scenario("service")
def service(setting: Setting) -> Iterator[Table]:
    with Replica(setting.folder / "service", setting.redis.url) as replica:
        urls = f"{setting.redis.url} {replica.url} {setting.etcd.url}"
        servers = [replica.pid, setting.redis.pid, *(member.pid for member in setting.etcd.members)]
        with one_core(*servers):
            yield from _pairs(setting, urls, "one core", GOALS)
        yield from _pairs(setting, urls, "free cores", {Gateway.label: 1.6})
        yield from _hand_offs(setting, urls)
        yield _throughput(setting, replica)


def _pairs(setting: Setting, urls: str, where: str, goals: dict[str, float]) -> Iterator[Table]:
    rounds, pairs = setting.rounds(25, 5), setting.rounds(300, 100)
    notes: list[str] = []
    sync = measure_pairs(SYNC, urls, notes, rounds=rounds, pairs=pairs)
    yield Table(f"Service pair, sync, {where}", "µs", "lower", sync, goals, notes)
    notes = []
    asynchronous = measure_async_pairs(ASYNC, urls, notes, rounds=rounds, pairs=pairs)
    yield Table(f"Service pair, asyncio, {where}", "µs", "lower", asynchronous, {}, notes)


def _hand_offs(setting: Setting, urls: str) -> Iterator[Table]:
    with Crew(8) as crew:
        for pace in (Pace(setting.seconds(1, 0.4)), Pace(setting.seconds(1, 0.5), hold=0.001)):
            contest = Contest("Service", urls, (ThroughService, Direct, Gateway), 8, pace)
            yield measure(contest, crew, setting.rounds(7, 2), {Direct.label: 0.4})


def _throughput(setting: Setting, replica: Replica) -> Table:
    """Operations per second of the replica's own CPU time, with 32 tasks on one line."""
    import asyncio

    process, pairs = psutil.Process(replica.pid), setting.rounds(200, 50)

    async def load() -> float:
        async with fencelock.AsyncClient(replica.url) as client:

            async def turns(name: str) -> None:
                for _ in range(pairs):
                    async with client.lock(name):
                        pass

            await turns("warm")
            before = _cpu(process)
            await asyncio.gather(*(turns(f"load-{n}") for n in range(32)))
            return 32 * pairs * 2 / (_cpu(process) - before)

    contestant: dict[str, Callable[[], float]] = {ThroughService.label: lambda: asyncio.run(load())}
    samples = interleave(contestant, setting.rounds(9, 3), notes := list[str]())
    title = "Service, 32 tasks on one line, operations per second of a server core"
    return Table(title, "per s", "higher", samples, {}, notes)


def _cpu(process: psutil.Process) -> float:
    times = process.cpu_times()
    return float(times.user + times.system)
