"""kill -9 of a holder: how long after its ttl ran out does the next one have the lock?"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence

from benchmarks.adapters.contract import Turns
from benchmarks.adapters.ours import Holdfast
from benchmarks.adapters.rivals.etcd3gw import Etcd3gw
from benchmarks.adapters.rivals.python_redis_lock import PythonRedisLock
from benchmarks.adapters.rivals.redis_py import RedisPyLock
from benchmarks.adapters.rivals.sherlock import Sherlock
from benchmarks.adapters.rivals.tooz import Tooz
from benchmarks.crew import Crew
from benchmarks.rounds import Table, interleave
from benchmarks.setting import Setting, scenario

TTL_SECONDS = 2
REDIS = (Holdfast, PythonRedisLock, RedisPyLock, Sherlock, Tooz)
ETCD = (Holdfast, Etcd3gw, Tooz)


@scenario("redis-killed")
def redis_killed(setting: Setting) -> Iterator[Table]:
    yield _table(setting, "Redis", setting.redis.url, REDIS)


@scenario("killed")
def killed(setting: Setting) -> Iterator[Table]:
    """The same on other engines; where only we are in the table, nobody else has a ttl."""
    yield _table(setting, "SQLite", setting.sqlite_url, (Holdfast,))
    if setting.quick:  # each takes a few seconds
        return
    yield _table(setting, "etcd", setting.etcd.url, ETCD)
    yield _table(setting, "ZooKeeper", setting.zookeeper.url, (Holdfast,))
    yield _table(setting, "PostgreSQL", setting.postgresql(durable=False).url, (Holdfast,))
    yield _table(setting, "MariaDB", setting.mysql(durable=False).url, (Holdfast,))


def _table(setting: Setting, where: str, url: str, adapters: Sequence[type[Turns]]) -> Table:
    notes: list[str] = []
    with Crew(2) as crew:
        contestants = {one.label: _contestant(crew, one, url) for one in adapters}
        samples = interleave(contestants, setting.rounds(7, 1), notes)
    title = f"{where}, holder killed: from the end of its ttl to the next holder"
    return Table(title, "ms", "lower", samples, notes=notes)


def _contestant(crew: Crew, adapter: type[Turns], url: str) -> Callable[[], float]:
    def run() -> float:
        name = f"killed-{adapter.__name__}-{time.monotonic_ns()}"
        try:
            crew.begin(0, _acquire, adapter, url, name)
            asked, _ = crew.answer(0)
            crew.begin(1, _acquire, adapter, url, name)
            crew.kill(0)  # before it has renewed anything
            _, had = crew.answer(1)
        finally:
            crew.replace(0)
            crew.replace(1)
        return float(had - asked) / 1e6 - TTL_SECONDS * 1e3

    return run


_held: Turns | None = None
"""Kept, for some release what is forgotten."""


def _acquire(adapter: type[Turns], url: str, name: str) -> tuple[int, int]:
    """When it asked, and when it had the lock."""
    global _held
    adapter.ttl = TTL_SECONDS
    _held = adapter(url, name)
    asked = time.monotonic_ns()
    _held.acquire()
    return asked, time.monotonic_ns()
