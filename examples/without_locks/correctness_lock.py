"""Clerks add to an estimate. Each addition asks an expert, who is slow and charges for each answer.

The new value depends on the old one *and* on an answer from outside, so no single statement can do it.
Optimistic versions would pay the expert again each time a clerk is overtaken. So the clerks take turns, with
a lock. But a clerk that is paused for longer than its ttl loses its turn and does not know: it writes what
it computed from an old value, and the work of the next clerk is gone. That is what the *guard* is for: it is
the first statement of the transaction, and it refuses a clerk that was overtaken.

Run it: python examples/without_locks/correctness_lock.py
"""

import sqlite3
import tempfile
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import fencelock
from fencelock.guards import SqlGuard

CLERKS = 4


class Estimate:
    """The stored value, with a guard or without."""

    def __init__(self, folder: Path, *, guarded: bool) -> None:
        self._file = folder / f"estimate-{guarded}.db"
        self.guard = SqlGuard(open=self._open) if guarded else None
        with self._open() as bank:
            SqlGuard().create(bank)
            bank.execute("CREATE TABLE estimate AS SELECT 0 AS value")

    def _open(self) -> sqlite3.Connection:
        return sqlite3.connect(self._file, timeout=60)

    def read(self) -> int:
        with self._open() as bank:
            return int(bank.execute("SELECT value FROM estimate").fetchone()[0])

    def write(self, value: int, lease: fencelock.Lease) -> None:
        with self._open() as bank:
            if self.guard:
                self.guard.check(bank, lease)
            bank.execute("UPDATE estimate SET value = ?", (value,))


def ask_the_expert(value: int) -> int:
    return value + 100


def add(estimate: Estimate, url: str, _: int = 0) -> None:
    """One clerk. With `guard=` the lock shows its fence to the storage before the clerk reads."""
    with (
        fencelock.Client(url, purpose="correctness") as client,
        client.lock("estimate", ttl=10, guard=estimate.guard) as lease,
    ):
        estimate.write(ask_the_expert(estimate.read()), lease)


def story(estimate: Estimate, url: str) -> str:
    with fencelock.Client(url) as here, fencelock.Client(url) as there:
        old = here.lock("estimate", guard=estimate.guard).acquire()
        late = ask_the_expert(estimate.read())
        there.break_lock("estimate")  # as if this clerk had been paused for longer than its ttl
    with ThreadPoolExecutor(CLERKS) as clerks:
        list(clerks.map(partial(add, estimate, url), range(CLERKS)))
    try:
        estimate.write(late, old)
    except fencelock.StaleFence:
        return f"the late write is refused, the estimate is {estimate.read()}"
    return f"the late write is accepted, the estimate is {estimate.read()}"


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as name:
        locks = f"sqlite:///{name}/locks.db"
        print("a lock alone:    ", story(Estimate(Path(name), guarded=False), locks))
        print("lock and a guard:", story(Estimate(Path(name), guarded=True), locks))
