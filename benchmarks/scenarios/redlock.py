"""Redlock on five nodes: what a pair costs, and what one node that is frozen costs."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from benchmarks.adapters.contract import Turns
from benchmarks.adapters.ours import AsyncHoldfast, Holdfast
from benchmarks.adapters.redlocks import (
    Aioredlock,
    AsyncRedlockNg,
    AsyncSendFiveReadFive,
    Pottery,
    RedlockNg,
    SendFiveReadFive,
)
from benchmarks.rounds import Samples, Table, interleave, median_us
from benchmarks.scenarios.redis_pair import measure_async_pairs, measure_pairs
from benchmarks.setting import Setting, scenario
from tests.servers import RedisServer

SYNC = (Holdfast, Pottery, RedlockNg, SendFiveReadFive)
ASYNC = (AsyncHoldfast, Aioredlock, AsyncRedlockNg, AsyncSendFiveReadFive)
GOALS = {
    Pottery.label: 3.0,
    RedlockNg.label: 3.0,
    AsyncRedlockNg.label: 3.0,
    SendFiveReadFive.label: 0.67,
}


@scenario("redlock-pair")
def redlock_pair(setting: Setting) -> Iterator[Table]:
    url = setting.redlock.url
    rounds, pairs = setting.rounds(25, 5), setting.rounds(200, 50)
    sync = measure_pairs(SYNC, url, rounds=rounds, pairs=pairs)
    yield Table("Redlock pair, five nodes, sync", "µs", "lower", sync, GOALS)
    asynchronous = measure_async_pairs(ASYNC, url, rounds, pairs)
    yield Table("Redlock pair, five nodes, asyncio", "µs", "lower", asynchronous, GOALS)
    yield from _one_frozen(setting)


def _one_frozen(setting: Setting) -> Iterator[Table]:
    adapters = (Holdfast, Pottery, RedlockNg)
    first: Samples = {one.label: [] for one in adapters}

    def contestant(adapter: type[Turns]) -> Callable[[], float]:
        def run() -> float:
            turns = adapter(setting.redlock.url, f"frozen-{adapter.__name__}")
            turns.acquire()  # connects
            turns.release()
            with _frozen(setting.redlock.nodes[2]):
                first[adapter.label].append(_once_us(turns))
                value = median_us(lambda: _pair(turns), setting.rounds(20, 5))
            turns.close()
            return value

        return run

    contestants = {one.label: contestant(one) for one in adapters}
    later = interleave(contestants, setting.rounds(5, 2))
    # aioredlock is left out: it waits for a frozen node without end.
    yield Table("Redlock pair, one node frozen, the first", "µs", "lower", first)
    yield Table("Redlock pair, one node frozen, later ones", "µs", "lower", later)


def _pair(turns: Turns) -> None:
    turns.acquire()
    turns.release()


def _once_us(turns: Turns) -> float:
    start = time.perf_counter_ns()
    _pair(turns)
    return (time.perf_counter_ns() - start) / 1e3


@contextmanager
def _frozen(node: RedisServer) -> Iterator[None]:
    node.freeze()
    try:
        yield
    finally:
        node.thaw()
