"""asyncio: a thousand tasks at once, each on a name of its own."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine, Iterator
from typing import Any

import redis.asyncio

import holdfast
from benchmarks.adapters.raw_redis import RawBatches
from benchmarks.rounds import Table, interleave
from benchmarks.setting import Setting, scenario

TASKS = 1000
POOL = 50
OURS = "Holdfast"
PEER = f"redis.asyncio Lock, blocking pool of {POOL}"

Turn = Callable[[str], Coroutine[Any, Any, None]]


@scenario("fan-out")
def fan_out(setting: Setting) -> Iterator[Table]:
    url = setting.redis.url
    names = [f"fan-{n}" for n in range(TASKS)]
    with asyncio.Runner() as runner:
        ours = runner.run(_made(lambda: holdfast.AsyncClient(url)))
        blocking = redis.asyncio.BlockingConnectionPool.from_url(url, max_connections=POOL)
        peer = runner.run(_made(lambda: redis.asyncio.Redis(connection_pool=blocking)))
        limit = RawBatches(url, names)

        async def our_turn(name: str) -> None:
            async with ours.lock(name):
                pass

        async def their_turn(name: str) -> None:
            async with peer.lock(name, timeout=30):
                pass

        contestants = {
            OURS: lambda: runner.run(_all(our_turn, names)),
            PEER: lambda: runner.run(_all(their_turn, names)),
            limit.label: lambda: _timed(limit.run),
        }
        interleave(contestants, 1)  # warm
        samples = interleave(contestants, setting.rounds(15, 5))
        notes = [runner.run(_with_default_pool(url, names))]
        runner.run(ours.close())
        runner.run(peer.aclose())
        limit.close()
    title = f"Redis, {TASKS:,} tasks on {TASKS:,} names, asyncio"
    yield Table(title, "pairs per s", "higher", samples, {PEER: 8}, notes)


async def _made(make: Callable[[], Any]) -> Any:
    return make()


async def _all(turn: Turn, names: list[str]) -> float:
    start = time.perf_counter()
    await asyncio.gather(*(turn(name) for name in names))
    return len(names) / (time.perf_counter() - start)


def _timed(act: Callable[[], None]) -> float:
    start = time.perf_counter()
    act()
    return TASKS / (time.perf_counter() - start)


async def _with_default_pool(url: str, names: list[str]) -> str:
    """How redis.asyncio fares when nobody has chosen a pool for it."""
    client = redis.asyncio.Redis.from_url(url)

    async def turn(name: str) -> None:
        async with client.lock(name, timeout=30):
            pass

    outcomes = await asyncio.gather(*(turn(name) for name in names), return_exceptions=True)
    errors = [outcome for outcome in outcomes if isinstance(outcome, Exception)]
    await client.aclose()
    if not errors:
        return f"redis.asyncio Lock with its default pool served all {len(names)} tasks"
    return (
        f"redis.asyncio Lock with its default pool failed {len(errors)} of {len(names)} tasks: "
        f"{type(errors[0]).__name__}: {errors[0]}"
    )
