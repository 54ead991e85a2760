"""Many leases in one process: what does it cost to hold and to renew them?"""

from __future__ import annotations

import gc
import os
import time
import tracemalloc
from collections.abc import Callable, Iterator

import psutil

import holdfast
from benchmarks.crew import Crew
from benchmarks.rounds import Table
from benchmarks.setting import Setting, scenario

LEASES = 10_000
TTL_SECONDS = 30
OURS = "Holdfast"

_ENGINES_OWN = ("*/engines/memory.py", "*/core/queue.py")
"""The queues of memory:// live in this process; on other engines they are the server's."""


@scenario("memory")
def memory(setting: Setting) -> Iterator[Table]:
    for engine, url in (("Redis", setting.redis.url), ("memory://", "memory://")):
        traced, resident = _alone(_traced_bytes, url), _alone(_resident_bytes, url)
        notes = []
        if engine == "Redis":
            notes = [f"the process as a whole grew by {resident:,.0f} bytes per lease"]
        title = f"{engine}, memory per held lease"
        yield Table(title, "bytes", "lower", {OURS: [traced]}, notes=notes)


def _alone(measure: Callable[[str], float], url: str) -> float:
    """Measure in a process of its own, which is killed: there is nothing it has to give back."""
    with Crew(1) as crew:
        (value,) = crew.call(measure, [(url,)])
    return float(value)


def _hold(url: str, before: Callable[[], None]) -> list[holdfast.Lease]:
    client = holdfast.Client(url, ttl=TTL_SECONDS)
    client.lock("first").acquire().release()  # connects
    gc.collect()
    before()
    leases = [client.lock(f"{os.getpid()}:{n}").acquire() for n in range(LEASES)]
    gc.collect()
    return leases


def _traced_bytes(url: str) -> float:
    leases = _hold(url, tracemalloc.start)
    ours = [tracemalloc.Filter(False, pattern) for pattern in _ENGINES_OWN]
    snapshot = tracemalloc.take_snapshot().filter_traces(ours)
    tracemalloc.stop()
    assert all(lease.remaining() for lease in leases)
    return sum(statistic.size for statistic in snapshot.statistics("filename")) / LEASES


def _resident_bytes(url: str) -> float:
    sizes: list[int] = []

    def look() -> None:
        sizes.append(psutil.Process().memory_info().rss)

    leases = _hold(url, look)
    look()
    assert all(lease.remaining() for lease in leases)
    return (sizes[1] - sizes[0]) / LEASES


@scenario("renewing")
def renewing(setting: Setting) -> Iterator[Table]:
    if setting.quick:  # it takes two periods of renewal
        return
    with Crew(1) as crew:
        server = psutil.Process(setting.redis.pid)
        crew.call(_begin_renewing, [(setting.redis.url,)])
        before = sum(server.cpu_times()[:2])
        ((share, lost),) = crew.call(_renew_for, [(2 * TTL_SECONDS / 3,)])
        served = (sum(server.cpu_times()[:2]) - before) / (2 * TTL_SECONDS / 3)
    notes = [f"{lost} of them were lost", f"the server used {served * 100:.2g} % of a core for it"]
    title = f"Redis, renewing {LEASES:,} leases, ttl {TTL_SECONDS} s"
    yield Table(title, "% of a core", "lower", {OURS: [share * 100]}, notes=notes)


_held: list[holdfast.Lease] = []


def _begin_renewing(url: str) -> None:
    _held.extend(_hold(url, lambda: None))


def _renew_for(seconds: float) -> tuple[float, int]:
    before = time.process_time()
    time.sleep(seconds)
    share = (time.process_time() - before) / seconds
    return share, sum(lease.state is not holdfast.LeaseState.HELD for lease in _held)
