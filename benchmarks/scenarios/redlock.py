"""Redlock on five nodes: what a pair costs, and what it costs while one or two of them are stopped."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager

from benchmarks.adapters.contract import Turns
from benchmarks.adapters.limits.redlock import SendToAll, SendToAllReadAll
from benchmarks.adapters.limits.redlock_asyncio import AsyncSendToAllReadAll
from benchmarks.adapters.ours import AsyncFencelock, Fencelock
from benchmarks.adapters.rivals.aioredlock import Aioredlock
from benchmarks.adapters.rivals.pottery import Pottery
from benchmarks.adapters.rivals.redlock_ng import AsyncRedlockNg, RedlockNg
from benchmarks.pairs import measure_async_pairs, measure_pairs, pair
from benchmarks.rounds import Samples, Table, interleave, left_out, median_us
from benchmarks.setting import Setting, scenario
from tests.servers import RedisServer

SYNC = (Fencelock, Pottery, RedlockNg, SendToAll, SendToAllReadAll)
ASYNC = (AsyncFencelock, Aioredlock, AsyncRedlockNg, AsyncSendToAllReadAll)
STOPPED = (Fencelock, Pottery, RedlockNg, SendToAll)
GOALS = {
    Pottery.label: 2.0,
    RedlockNg.label: 2.0,
    Aioredlock.label: 2.0,
    AsyncRedlockNg.label: 2.0,
    SendToAllReadAll.label: 0.67,
}
GOALS_STOPPED = {Pottery.label: 5.0, RedlockNg.label: 5.0}
CHART = "redlock-stopped"
HANGS_SECONDS = 3


@scenario("redlock")
def redlock(setting: Setting) -> Iterator[Table]:
    url = setting.redlock.url
    rounds, pairs, notes = setting.rounds(25, 5), setting.rounds(200, 50), list[str]()
    sync = measure_pairs(SYNC, url, notes, rounds=rounds, pairs=pairs)
    title = "Redlock pair, five nodes, sync"
    yield Table(title, "µs", "lower", sync, GOALS, notes, chart=CHART, at=0)
    notes = []
    asynchronous = measure_async_pairs(ASYNC, url, notes, rounds=rounds, pairs=pairs)
    yield Table("Redlock pair, five nodes, asyncio", "µs", "lower", asynchronous, GOALS, notes)
    for stopped in (1, 2):
        yield from _stopped(setting, stopped)


def _stopped(setting: Setting, stopped: int) -> Iterator[Table]:
    nodes = setting.redlock.nodes[-stopped:]
    first: Samples = {one.label: [] for one in STOPPED}

    def contestant(adapter: type[Turns]) -> Callable[[], float]:
        def run() -> float:
            turns = adapter(
                setting.redlock.url, f"stopped-{adapter.__name__}-{time.monotonic_ns()}"
            )
            pair(turns)  # connects
            with frozen(nodes):
                first[adapter.label].append(median_us(lambda: pair(turns), 1))
                value = median_us(lambda: pair(turns), setting.rounds(20, 3))
            turns.close()
            return value

        return run

    notes: list[str] = []
    contestants = {one.label: contestant(one) for one in STOPPED}
    later = interleave(contestants, setting.rounds(5, 2), notes)
    asyncio.run(_try_aioredlock(setting.redlock.url, nodes, notes))
    word = "one node" if stopped == 1 else "two nodes"
    complete = {label: first[label] for label in later}
    yield Table(f"Redlock pair, {word} stopped, the first", "µs", "lower", complete)
    title = f"Redlock pair, {word} stopped, later ones"
    yield Table(title, "µs", "lower", later, GOALS_STOPPED, notes, chart=CHART, at=stopped)


async def _try_aioredlock(url: str, nodes: Sequence[RedisServer], notes: list[str]) -> None:
    """Try one pair, and note what happens."""
    try:
        turns = await Aioredlock.connect(url, f"stopped-aioredlock-{len(nodes)}")
        await turns.acquire()
        await turns.release()
        with frozen(nodes):
            start = time.perf_counter()
            async with asyncio.timeout(HANGS_SECONDS):
                await turns.acquire()
                await turns.release()
            notes.append(f"aioredlock: {(time.perf_counter() - start) * 1e6:,.0f} µs for one pair")
    except TimeoutError:
        notes.append(f"aioredlock had not got the lock after {HANGS_SECONDS} s")
    except Exception as error:
        notes.append(left_out(Aioredlock.label, error))


@contextmanager
def frozen(servers: Sequence[RedisServer]) -> Iterator[None]:
    """Freeze servers during the block: they keep their connections and answer nothing."""
    with ExitStack() as stopped:
        for server in servers:
            server.freeze()
            stopped.callback(server.thaw)
        yield
