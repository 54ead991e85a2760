"""Redis, nobody else wants the lock: what does an acquire and a release cost?"""

from __future__ import annotations

import asyncio
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

import psutil

from benchmarks.adapters.contract import AsyncTurns, Turns
from benchmarks.adapters.ours import AsyncHoldfast, Holdfast, HoldfastReused
from benchmarks.adapters.raw_redis import AsyncRawPair, RawPair
from benchmarks.adapters.redis_py import AsyncRedisPyLock, RedisPyLock, RedisPyLockFresh
from benchmarks.rounds import Samples, Table, interleave, median_us
from benchmarks.setting import Setting, scenario

SYNC = (Holdfast, HoldfastReused, RedisPyLock, RedisPyLockFresh, RawPair)
ASYNC = (AsyncHoldfast, AsyncRedisPyLock, AsyncRawPair)
GOALS = {
    RedisPyLock.label: 2.2,
    RawPair.label: 0.65,
    AsyncRedisPyLock.label: 2.5,
    AsyncRawPair.label: 0.65,
}


def measure_pairs(
    adapters: tuple[type[Turns], ...], url: str, *, rounds: int, pairs: int
) -> Samples:
    """The median µs of a pair, per adapter and round."""
    with ExitStack() as opened:
        contestants: dict[str, Callable[[], float]] = {}
        for adapter in adapters:
            turns = adapter(url, f"pair-{adapter.__name__}")
            opened.callback(turns.close)
            contestants[adapter.label] = _timed(turns, pairs)
        interleave(contestants, 1)  # warm
        return interleave(contestants, rounds)


def _timed(turns: Turns, pairs: int) -> Callable[[], float]:
    def pair() -> None:
        turns.acquire()
        turns.release()

    return lambda: median_us(pair, pairs)


@scenario("redis-pair")
def redis_pair(setting: Setting) -> Iterator[Table]:
    with one_core(setting.redis.pid):
        yield from _tables(setting, "one core")
    yield from _tables(setting, "free cores")


def _tables(setting: Setting, where: str) -> Iterator[Table]:
    rounds, pairs = setting.rounds(25, 5), setting.rounds(500, 200)
    sync = measure_pairs(SYNC, setting.redis.url, rounds=rounds, pairs=pairs)
    yield Table(f"Redis pair, sync, {where}", "µs", "lower", sync, GOALS)
    asynchronous = measure_async_pairs(ASYNC, setting.redis.url, rounds, pairs)
    yield Table(f"Redis pair, asyncio, {where}", "µs", "lower", asynchronous, GOALS)


@contextmanager
def one_core(server: int) -> Iterator[None]:
    """Put this process and a server on one core: what is measured then is the work.

    On cores of their own, each request also waits for an idle core to wake up, twice. That takes as
    long as it takes, is the same for everyone, and depends on what else the machine does.
    """
    processes = [psutil.Process(), psutil.Process(server)]
    before = [process.cpu_affinity() for process in processes]
    for process in processes:
        process.cpu_affinity(before[0][-1:])
    try:
        yield
    finally:
        for process, cores in zip(processes, before, strict=True):
            process.cpu_affinity(cores)


def measure_async_pairs(
    adapters: tuple[type[AsyncTurns], ...], url: str, rounds: int, pairs: int
) -> Samples:
    """As `measure_pairs`, in one event loop."""
    with asyncio.Runner() as runner:
        opened = [runner.run(adapter.connect(url, adapter.__name__)) for adapter in adapters]
        contestants = {turns.label: _timed_async(runner, turns, pairs) for turns in opened}
        interleave(contestants, 1)  # warm
        samples = interleave(contestants, rounds)
        for turns in opened:
            runner.run(turns.close())
    return samples


def _timed_async(runner: asyncio.Runner, turns: AsyncTurns, pairs: int) -> Callable[[], float]:
    async def measure() -> float:
        clock = time.perf_counter_ns
        taken = []
        for _ in range(pairs):
            start = clock()
            await turns.acquire()
            await turns.release()
            taken.append(clock() - start)
        return statistics.median(taken) / 1e3

    return lambda: runner.run(measure())
