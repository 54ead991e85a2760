"""Redis, several processes want one lock: how fast does it change hands, and what does that cost?"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from benchmarks.adapters.contract import Turns
from benchmarks.adapters.limits.redis_ring import Ring, RingAfterRoundTrip
from benchmarks.adapters.limits.redis_token import Token
from benchmarks.adapters.ours import AsyncFencelock, Fencelock, FencelockMeasured
from benchmarks.adapters.rivals.aioredlock import Aioredlock
from benchmarks.adapters.rivals.python_redis_lock import PythonRedisLock
from benchmarks.adapters.rivals.redis_py import RedisPyLock, RedisPyLockBusy
from benchmarks.adapters.rivals.redis_py_asyncio import AsyncRedisPyLock
from benchmarks.adapters.rivals.sherlock import Sherlock
from benchmarks.adapters.rivals.tooz import Tooz
from benchmarks.crew import Crew
from benchmarks.hand_offs import Contest, measure
from benchmarks.rounds import Table, interleave
from benchmarks.setting import Setting, scenario
from benchmarks.turns import Pace, calm

SIZES = (2, 8, 32)
QUICK = (Fencelock, FencelockMeasured, PythonRedisLock, RedisPyLockBusy, RedisPyLock, Token)
SYNC = (*QUICK, Sherlock, Tooz)  # both poll, as redis-py's Lock does
ASYNC = (AsyncFencelock, AsyncRedisPyLock, Aioredlock, Token)
GOALS = {8: {PythonRedisLock.label: 3.0}, 32: {PythonRedisLock.label: 4.5}}


@scenario("redis-hand-off")
def redis_hand_off(setting: Setting) -> Iterator[Table]:
    server, rounds = setting.redis, setting.rounds(7, 2)
    empty, held = Pace(setting.seconds(0.5, 0.3)), Pace(setting.seconds(1, 0.5), hold=0.001)
    sync = QUICK if setting.quick else SYNC
    with Crew(max(SIZES)) as crew:
        for size in SIZES:
            goals = {Token.label: 0.6, **GOALS.get(size, {})}
            contest = Contest("Redis", server.url, sync, size, empty)
            counted = server if size == 8 else setting.unless_quick(server)
            chart = "redis-hand-off"
            yield measure(contest, crew, rounds, goals, chart=chart, counted=counted)
        for size in SIZES[1:2] if setting.quick else SIZES:
            contest = Contest("Redis", server.url, sync, size, held)
            chart = "redis-hand-off-1ms"
            yield measure(contest, crew, rounds, chart=chart, counted=setting.unless_quick(server))
        for size in SIZES[2:] if setting.quick else SIZES:
            contest = Contest("Redis, asyncio,", server.url, ASYNC, size, empty)
            goals = {Token.label: 0.35} if size == 32 else {}
            yield measure(contest, crew, rounds, goals, counted=setting.unless_quick(server))


@scenario("redis-latency")
def redis_latency(setting: Setting) -> Iterator[Table]:
    """Single hand-offs: the time from the call of release until the next holder runs."""
    pace = calm(setting.seconds(0.5, 0.15))

    def contestant(adapter: type[Turns], size: int) -> Callable[[], float]:
        return lambda: crew.compete(adapter, setting.redis.url, "calm", size, pace).latency_us()

    adapters = (Fencelock, PythonRedisLock, RedisPyLockBusy, Token, RingAfterRoundTrip, Ring)
    with Crew(8) as crew:
        for size in (2, 8):
            notes: list[str] = []
            contestants = {adapter.label: contestant(adapter, size) for adapter in adapters}
            samples = interleave(contestants, setting.rounds(9, 3), notes)
            title = f"Redis release → next holder, {size} processes"
            goals = {RingAfterRoundTrip.label: 0.5}
            yield Table(title, "µs", "lower", samples, goals, notes)
