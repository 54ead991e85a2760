"""Redis, no contention: what do an acquire and a release cost?"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import psutil

from benchmarks.adapters.limits.redis_pair import RawPair
from benchmarks.adapters.limits.redis_pair_asyncio import AsyncRawPair
from benchmarks.adapters.ours import AsyncFencelock, Fencelock, FencelockMeasured, FencelockReused
from benchmarks.adapters.rivals.aioredlock import Aioredlock
from benchmarks.adapters.rivals.python_redis_lock import PythonRedisLock
from benchmarks.adapters.rivals.redis_py import RedisPyLock, RedisPyLockFresh
from benchmarks.adapters.rivals.redis_py_asyncio import AsyncRedisPyLock
from benchmarks.adapters.rivals.sherlock import Sherlock
from benchmarks.adapters.rivals.tooz import Tooz
from benchmarks.pairs import measure_async_pairs, measure_pairs
from benchmarks.rounds import Table
from benchmarks.setting import Setting, scenario

SYNC = (
    Fencelock,
    FencelockReused,
    FencelockMeasured,
    Sherlock,
    RedisPyLock,
    RedisPyLockFresh,
    PythonRedisLock,
    Tooz,
    RawPair,
)
ASYNC = (AsyncFencelock, AsyncRedisPyLock, Aioredlock, AsyncRawPair)
GOALS = {
    RedisPyLock.label: 2.2,
    RawPair.label: 0.65,
    AsyncRedisPyLock.label: 2.5,
    AsyncRawPair.label: 0.65,
}


@scenario("redis-pair")
def redis_pair(setting: Setting) -> Iterator[Table]:
    with one_core(setting.redis.pid):
        yield from _tables(setting, "one core", "redis-pair")
    yield from _tables(setting, "free cores", "")


def _tables(setting: Setting, where: str, chart: str) -> Iterator[Table]:
    url, rounds, pairs = setting.redis.url, setting.rounds(25, 5), setting.rounds(500, 200)
    notes: list[str] = []
    samples = measure_pairs(SYNC, url, notes, rounds=rounds, pairs=pairs)
    yield Table(f"Redis pair, sync, {where}", "µs", "lower", samples, GOALS, notes, chart=chart)
    notes = []
    samples = measure_async_pairs(ASYNC, url, notes, rounds=rounds, pairs=pairs)
    chart = chart and f"{chart}-asyncio"
    yield Table(f"Redis pair, asyncio, {where}", "µs", "lower", samples, GOALS, notes, chart=chart)


@contextmanager
def one_core(*servers: int) -> Iterator[None]:
    """Put this process and these servers on one core, to measure only the work.

    On separate cores each request also waits twice for an idle core to wake up. That time is the same for all
    libraries, and depends on what else the machine does.
    """
    processes = [psutil.Process(), *map(psutil.Process, servers)]
    before = [process.cpu_affinity() for process in processes]
    for process in processes:
        process.cpu_affinity(before[0][-1:])
    try:
        yield
    finally:
        for process, cores in zip(processes, before, strict=True):
            process.cpu_affinity(cores)
