"""Beyond the mutex: the cost of each primitive without contention, compared with the mutex and with kazoo."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.adapters.ours import (
    FencelockMutex,
    FencelockReader,
    FencelockSemaphore,
    FencelockThree,
    FencelockTransaction,
)
from benchmarks.adapters.rivals.kazoo import KazooReadLock, KazooSemaphore
from benchmarks.pairs import measure_pairs
from benchmarks.rounds import Table
from benchmarks.setting import Setting, scenario

KINDS = {
    "a reader": FencelockReader,
    "a semaphore": FencelockSemaphore,
    "three at once": FencelockThree,
    "in a transaction": FencelockTransaction,
}


@scenario("primitives")
def primitives(setting: Setting) -> Iterator[Table]:
    rounds, pairs = setting.rounds(15, 5), setting.rounds(300, 50)
    for what, adapter in KINDS.items():
        notes: list[str] = []
        samples = measure_pairs(
            (adapter, FencelockMutex), setting.redis.url, notes, rounds=rounds, pairs=pairs
        )
        yield Table(f"Redis pair, {what}", "µs", "lower", samples, notes=notes)
    url = setting.zookeeper.url
    for what, ours, theirs in (
        ("a reader", FencelockReader, KazooReadLock),
        ("a semaphore", FencelockSemaphore, KazooSemaphore),
    ):
        notes = []
        samples = measure_pairs(
            (ours, theirs), url, notes, rounds=rounds, pairs=setting.rounds(60, 20)
        )
        yield Table(f"ZooKeeper pair, {what}", "µs", "lower", samples, {theirs.label: 1.0}, notes)
