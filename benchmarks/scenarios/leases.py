"""Many leases in one process: what does it cost to hold and to renew them?"""

from __future__ import annotations

import gc
import os
import time
import tracemalloc
from collections.abc import Iterator, Sequence

import psutil

import fencelock
from benchmarks.adapters.contract import Keeper
from benchmarks.adapters.ours import FencelockKeeper
from benchmarks.adapters.rivals.aioredlock import AioredlockKeeper
from benchmarks.adapters.rivals.python_redis_lock import PythonRedisLockKeeper
from benchmarks.adapters.rivals.tooz import ToozKeeper
from benchmarks.crew import Crew
from benchmarks.rounds import Details, Samples, Table, left_out
from benchmarks.setting import Setting, scenario

TTL_SECONDS = 30
PERIOD_SECONDS = TTL_SECONDS * 2 / 3
"""In this time every contestant renews at least once. python-redis-lock waits the longest."""

RIVALS = (AioredlockKeeper, ToozKeeper, PythonRedisLockKeeper)
RIVALS_AT_MOST = 10_000
_TO_HOLD_SECONDS = 300
MEASURED = 3_000

_ENGINES_OWN = ("*/engines/memory.py", "*/core/queue.py")
"""Not counted: the queues of memory:// are in this process, those of other engines are in the server."""


@scenario("leases")
def leases(setting: Setting) -> Iterator[Table]:
    """Measure the share of a core that renewing takes, the memory, and how many leases are lost."""
    if setting.quick:
        yield _held(setting, 1_000, (FencelockKeeper, *RIVALS))
        return
    for count in (1_000, 10_000, 100_000):
        rivals = RIVALS if count <= RIVALS_AT_MOST else ()
        yield _held(setting, count, (FencelockKeeper, *rivals))


def _held(setting: Setting, count: int, keepers: Sequence[type[Keeper]]) -> Table:
    """Run all at the same time: it measures the CPU time of each process, and there is enough for all."""
    samples: Samples = {}
    details: Details = {}
    notes: list[str] = []
    server = setting.redis
    with Crew(len(keepers)) as crew:
        holding = [
            place
            for place in range(len(keepers))
            if _begun(crew, place, keepers, server.url, count, notes)
        ]
        pids = [server.pid, *(crew.pid(place) for place in holding)]
        before = [_cpu(pid) for pid in pids]
        time.sleep(PERIOD_SECONDS)
        served, *used = [
            (_cpu(pid) - earlier) / PERIOD_SECONDS * 100
            for pid, earlier in zip(pids, before, strict=True)
        ]
        for place, share in zip(holding, used, strict=True):
            label = keepers[place].label
            samples[label] = [share]
            crew.begin(place, _look)
            details[label] = crew.answer(place)
    notes.append(f"the server used {served:.2g} % of a core for all of them")
    title = f"Redis, {count:,} leases held and renewed, ttl {TTL_SECONDS} s"
    return Table(title, "% of a core", "lower", samples, {}, notes, details, "leases", count)


def _begun(
    crew: Crew,
    place: int,
    keepers: Sequence[type[Keeper]],
    url: str,
    count: int,
    notes: list[str],
) -> bool:
    crew.begin(place, _hold, keepers[place], url, count)
    try:
        crew.answer(place, _TO_HOLD_SECONDS)
    except (RuntimeError, TimeoutError) as error:
        if place == 0:
            raise
        notes.append(left_out(keepers[place].label, error))
        return False
    return True


def _cpu(pid: int) -> float:
    return sum(psutil.Process(pid).cpu_times()[:2])


# --- the code that runs in the worker

_keeper: Keeper | None = None
_grown = 0.0


def _hold(keeper: type[Keeper], url: str, count: int) -> None:
    global _keeper, _grown
    _keeper = keeper(url, TTL_SECONDS)
    gc.collect()
    before = psutil.Process().memory_info().rss
    _keeper.hold([f"{os.getpid()}:{number}" for number in range(count)])
    gc.collect()
    _grown = (psutil.Process().memory_info().rss - before) / count


def _look() -> dict[str, float]:
    assert _keeper is not None
    return {"lost": _keeper.lost(), "bytes per lease": _grown}


@scenario("memory")
def memory(setting: Setting) -> Iterator[Table]:
    """The memory of a held lease, as Python itself counts it. It varies less than the size of the process."""
    for engine, url in (("Redis", setting.redis.url), ("memory://", "memory://")):
        with Crew(1) as crew:  # killed afterwards; it does not have to release anything
            (traced,) = crew.call(_traced_bytes, [(url,)])
        yield Table(f"{engine}, memory per held lease", "bytes", "lower", {"Fencelock": [traced]})


def _traced_bytes(url: str) -> float:
    client = fencelock.Client(url, ttl=TTL_SECONDS)
    client.lock("first").acquire().release()  # connects
    gc.collect()
    tracemalloc.start()
    leases = [client.lock(f"{os.getpid()}:{number}").acquire() for number in range(MEASURED)]
    gc.collect()
    ours = [tracemalloc.Filter(False, pattern) for pattern in _ENGINES_OWN]
    snapshot = tracemalloc.take_snapshot().filter_traces(ours)
    tracemalloc.stop()
    assert all(lease.remaining() for lease in leases)
    return sum(statistic.size for statistic in snapshot.statistics("filename")) / MEASURED
