"""Growth: what does a hand-off cost with more waiters, and a pair with more names?"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import nullcontext

import fencelock
from benchmarks.adapters.contract import Turns
from benchmarks.adapters.limits.redis_pair import RawPair
from benchmarks.adapters.limits.redis_token import Token
from benchmarks.adapters.limits.sqlite_row import BareRow
from benchmarks.adapters.ours import Fencelock
from benchmarks.adapters.rivals.python_redis_lock import PythonRedisLock
from benchmarks.adapters.rivals.redis_py import RedisPyLock, RedisPyLockBusy
from benchmarks.crew import Crew
from benchmarks.hand_offs import Contest, measure
from benchmarks.pairs import measure_pairs
from benchmarks.rounds import Table
from benchmarks.scenarios.redis_pair import one_core
from benchmarks.setting import Setting, scenario
from benchmarks.turns import Pace

WAITERS = (1, 10, 100, 1_000)
PROCESSES = 10
NAMES = (1, 10, 100, 1_000, 10_000, 100_000, 1_000_000)
AT_ONCE = 1_000
TTL_SECONDS = 3_600
HAND_OFF = (Fencelock, PythonRedisLock, RedisPyLockBusy, Token)


@scenario("growth-waiters")
def growth_waiters(setting: Setting) -> Iterator[Table]:
    pace = Pace(setting.seconds(3, 1), grace=1)  # a thousand waiters take a while to begin
    with Crew(PROCESSES) as crew:
        for waiters in WAITERS[:3:2] if setting.quick else WAITERS:
            size = waiters + 1  # one of them holds the lock
            each = -(-size // PROCESSES)
            contest = Contest("Redis", setting.redis.url, HAND_OFF, size, pace, each)
            counted = setting.unless_quick(setting.redis)
            found = measure(contest, crew, setting.rounds(3, 1), counted=counted)
            yield _cost(found, waiters)


def _cost(found: Table, waiters: int) -> Table:
    """Convert hand-offs per second to the time of one hand-off."""
    samples = {
        label: [1e6 / value if value else float("inf") for value in values]
        for label, values in found.samples.items()
    }
    title = f"Redis hand-off while {waiters:,} wait"
    return Table(
        title, "µs", "lower", samples, {}, found.notes, found.details, "growth-waiters", waiters
    )


@scenario("growth-names-redis")
def growth_names_redis(setting: Setting) -> Iterator[Table]:
    server = setting.redis
    server.execute("FLUSHALL")
    empty = server.info("memory")["used_memory"]
    adapters = (Fencelock, RedisPyLock, RawPair)
    for table, names in _names(setting, "Redis", server.url, adapters, server.pid):
        if names >= 1_000:  # with fewer names the memory is not measurable
            per_name = (server.info("memory")["used_memory"] - empty) / names
            table.notes.append(f"{per_name:,.0f} bytes per name at the server")
        yield table
    server.execute("FLUSHALL")


@scenario("growth-names-sqlite")
def growth_names_sqlite(setting: Setting) -> Iterator[Table]:
    url = f"sqlite:///{setting.folder}/many.db"
    for table, _ in _names(setting, "SQLite", url, (Fencelock, BareRow)):
        yield table


def _names(
    setting: Setting,
    where: str,
    url: str,
    adapters: tuple[type[Turns], ...],
    server: int | None = None,
) -> Iterator[tuple[Table, int]]:
    """A pair on one name, while this many others are held, for an hour, by a process that has ended."""
    rounds, pairs, held = setting.rounds(9, 5), setting.rounds(300, 100), 0
    for names in NAMES[:5] if setting.quick else NAMES:
        with Crew(1) as crew:
            while held < names:
                more = min(names, held + 50_000)  # few enough for the timeout of the crew
                crew.call(_hold, [(url, held, more)])
                held = more
        notes: list[str] = []
        # The points of the curve are measured one after the other, so the conditions must stay the same.
        with one_core(server) if server else nullcontext():
            samples = measure_pairs(adapters, url, notes, rounds=rounds, pairs=pairs)
        title = f"{where} pair while {names:,} names are held"
        chart = f"growth-names-{where.lower()}"
        yield Table(title, "µs", "lower", samples, {}, notes, chart=chart, at=names), names


def _hold(url: str, first: int, last: int) -> None:
    async def together() -> None:
        client = fencelock.AsyncClient(url, ttl=TTL_SECONDS)
        for start in range(first, last, AT_ONCE):
            some = range(start, min(start + AT_ONCE, last))
            await asyncio.gather(*(client.lock(f"held:{number}").acquire() for number in some))

    asyncio.run(together())
