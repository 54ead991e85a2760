"""asyncio: a thousand tasks at once, each with its own name."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine, Iterator
from contextlib import ExitStack
from typing import Any

from benchmarks.adapters.limits.redis_batches import RawBatches
from benchmarks.rounds import Table, interleave, left_out
from benchmarks.setting import Setting, scenario

TASKS = 1000
POOL = 50

Turn = Callable[[str], Coroutine[Any, Any, None]]
Closing = Callable[[], Coroutine[Any, Any, None]]
Opened = tuple[Turn, Closing]
"""What a task does, and how to close its client."""


async def _fencelock(url: str) -> Opened:
    import fencelock

    client = fencelock.AsyncClient(url)

    async def turn(name: str) -> None:
        async with client.lock(name):
            pass

    return turn, client.close


async def _redis_py(url: str, pool: int | None = POOL) -> Opened:
    from redis.asyncio import BlockingConnectionPool, ConnectionPool, Redis

    connections = (
        ConnectionPool.from_url(url)
        if pool is None
        else BlockingConnectionPool.from_url(url, max_connections=pool)
    )
    client = Redis(connection_pool=connections)

    async def turn(name: str) -> None:
        async with client.lock(name, timeout=30):
            pass

    async def close() -> None:
        await client.aclose()
        await connections.disconnect()

    return turn, close


async def _aioredlock(url: str) -> Opened:
    from aioredlock import Aioredlock

    locks = Aioredlock([url])

    async def turn(name: str) -> None:
        held = await locks.lock(name, lock_timeout=30)
        await locks.unlock(held)

    return turn, locks.destroy


CONTESTANTS = {
    "Fencelock": _fencelock,
    f"redis.asyncio Lock, blocking pool of {POOL}": _redis_py,
    "aioredlock": _aioredlock,
}


@scenario("fan-out")
def fan_out(setting: Setting) -> Iterator[Table]:
    url, notes = setting.redis.url, list[str]()
    names = [f"fan-{n}" for n in range(TASKS)]
    limit = RawBatches(url, names)
    with asyncio.Runner() as runner, ExitStack() as opened:
        opened.callback(limit.close)
        contestants: dict[str, Callable[[], float]] = {}
        for label, open_ in CONTESTANTS.items():
            try:
                turn, close = runner.run(open_(url))
            except ImportError as error:
                notes.append(left_out(label, error))
                continue
            opened.callback(_close, runner, close)
            contestants[label] = _contestant(runner, turn, names)
        contestants[limit.label] = lambda: _timed(limit.run)
        samples = interleave(contestants, setting.rounds(15, 5), notes, warm=True)
        notes.append(runner.run(_with_default_pool(url, names)))
    title = f"Redis, {TASKS:,} tasks on {TASKS:,} names, asyncio"
    goals = dict.fromkeys(list(CONTESTANTS)[1:], 8.0)
    yield Table(title, "pairs per s", "higher", samples, goals, notes, chart="fan-out")


def _close(runner: asyncio.Runner, close: Closing) -> None:
    runner.run(close())


def _contestant(runner: asyncio.Runner, turn: Turn, names: list[str]) -> Callable[[], float]:
    return lambda: runner.run(_all(turn, names))


async def _all(turn: Turn, names: list[str]) -> float:
    start = time.perf_counter()
    await asyncio.gather(*(turn(name) for name in names))
    return len(names) / (time.perf_counter() - start)


def _timed(act: Callable[[], None]) -> float:
    start = time.perf_counter()
    act()
    return TASKS / (time.perf_counter() - start)


async def _with_default_pool(url: str, names: list[str]) -> str:
    """Try redis.asyncio with its default pool."""
    turn, close = await _redis_py(url, pool=None)
    outcomes = await asyncio.gather(*(turn(name) for name in names), return_exceptions=True)
    errors = [outcome for outcome in outcomes if isinstance(outcome, Exception)]
    await close()
    if not errors:
        return f"redis.asyncio Lock with its default pool served all {len(names)} tasks"
    return (
        f"redis.asyncio Lock with its default pool failed {len(errors)} of {len(names)} tasks: "
        f"{type(errors[0]).__name__}: {errors[0]}"
    )
