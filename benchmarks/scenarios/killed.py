"""kill -9 of a holder: how long after the end of its ttl does the next waiter have the lock?"""

from __future__ import annotations

import random
import time
from collections.abc import Iterator, Sequence

from benchmarks.adapters.contract import Turns
from benchmarks.adapters.ours import Fencelock
from benchmarks.adapters.rivals.etcd3gw import Etcd3gw
from benchmarks.adapters.rivals.python_redis_lock import PythonRedisLock
from benchmarks.adapters.rivals.redis_py import RedisPyLock
from benchmarks.adapters.rivals.sherlock import Sherlock
from benchmarks.adapters.rivals.tooz import Tooz
from benchmarks.crew import Crew
from benchmarks.rounds import Samples, Table, left_out
from benchmarks.setting import Setting, scenario

TTL_SECONDS = 2
REDIS = (Fencelock, PythonRedisLock, RedisPyLock, Sherlock, Tooz)
ETCD = (Fencelock, Etcd3gw, Tooz)


@scenario("redis-killed")
def redis_killed(setting: Setting) -> Iterator[Table]:
    yield _table(setting, "Redis", setting.redis.url, REDIS)


@scenario("killed")
def killed(setting: Setting) -> Iterator[Table]:
    """The same on other engines. If a table has only Fencelock, no rival has a ttl there."""
    yield _table(setting, "SQLite", setting.sqlite_url, (Fencelock,))
    if setting.quick:  # each takes a few seconds
        return
    yield _table(setting, "etcd", setting.etcd.url, ETCD)
    yield _table(setting, "ZooKeeper", setting.zookeeper.url, (Fencelock,))
    yield _table(setting, "PostgreSQL", setting.postgresql(durable=False).url, (Fencelock,))
    yield _table(setting, "MariaDB", setting.mysql(durable=False).url, (Fencelock,))


def _table(setting: Setting, where: str, url: str, adapters: Sequence[type[Turns]]) -> Table:
    notes: list[str] = []
    samples: Samples = {adapter.label: [] for adapter in adapters}
    with Crew(2 * len(adapters)) as crew:
        for _ in range(setting.rounds(7, 3)):
            for label, late in _round(crew, url, adapters, notes).items():
                samples[label].append(late)
    rounds = len(samples[adapters[0].label])
    complete = {label: values for label, values in samples.items() if len(values) == rounds}
    title = f"{where}, holder killed: from the end of its ttl to the next holder"
    return Table(title, "ms", "lower", complete, notes=notes)


def _round(
    crew: Crew, url: str, adapters: Sequence[type[Turns]], notes: list[str]
) -> dict[str, float]:
    """Run all contestants at the same time: they sleep most of the time. They start one after the other."""
    ends: dict[str, int] = {}
    late: dict[str, float] = {}
    places = list(enumerate(adapters))
    for number, adapter in random.sample(places, len(places)):
        name = f"killed-{adapter.__name__}-{time.monotonic_ns()}"
        try:
            crew.begin(2 * number, _acquire, adapter, url, name)
            asked, _ = crew.answer(2 * number)
        except RuntimeError as error:
            if number == 0:
                raise
            notes.append(left_out(adapter.label, error))
            continue
        ends[adapter.label] = asked + TTL_SECONDS * 1_000_000_000
        crew.begin(2 * number + 1, _acquire, adapter, url, name)
        crew.replace(2 * number)  # kills it before it renews anything
    for number, adapter in places:
        if adapter.label in ends:
            _, had = crew.answer(2 * number + 1)
            late[adapter.label] = (had - ends[adapter.label]) / 1e6
            crew.replace(2 * number + 1)
    return late


_held: Turns | None = None
"""A reference that is kept: some libraries release a lock when its object is deleted."""


def _acquire(adapter: type[Turns], url: str, name: str) -> tuple[int, int]:
    """Acquire, and return when it asked and when it had the lock."""
    global _held
    adapter.ttl = TTL_SECONDS
    _held = adapter(url, name)
    asked = time.monotonic_ns()
    _held.acquire()
    return asked, time.monotonic_ns()
