"""One of many processes that share, transact or run once; see test_company.py.

Each process appends to a journal, each line in one write: the time of a clock that all processes of the
machine share, the process, and what it did.
"""

from __future__ import annotations

import os
import random
import sqlite3
import sys
import threading
import time
from pathlib import Path
from typing import Any

import fencelock


class Journal:
    def __init__(self, folder: Path) -> None:
        self._file = os.open(folder / "journal", os.O_CREAT | os.O_WRONLY | os.O_APPEND)

    def write(self, *words: object) -> None:
        line = " ".join(map(str, (time.monotonic_ns(), os.getpid(), *words)))
        os.write(self._file, f"{line}\n".encode())


def share(client: fencelock.Client, journal: Journal, name: str, locks: list[Any]) -> None:
    """Hold each of some locks for a moment."""
    for kind, lock in locks:
        with lock:
            journal.write("in", kind)
            time.sleep(0.003)
            journal.write("out", kind)


def semaphore(client: fencelock.Client, journal: Journal, name: str, folder: Path) -> None:
    share(client, journal, name, [("permit", client.semaphore(name, 3))] * 6)


def readers(client: fencelock.Client, journal: Journal, name: str, folder: Path) -> None:
    rwlock = client.rwlock(name)
    locks = [("read", rwlock.read())] * 5 + [("write", rwlock.write())] * 2
    random.shuffle(locks)
    share(client, journal, name, locks)


def transact(client: fencelock.Client, journal: Journal, name: str, folder: Path) -> None:
    """Take two names in one order or the other, by the policy that the name ends with."""
    policy: Any = name.rpartition(":")[2]
    names = [f"{name}:{letter}" for letter in "ab"]
    if os.getpid() % 2 and policy != "ordered":
        names.reverse()

    def work(transaction: fencelock.Transaction) -> None:
        for one in names:
            transaction.lock(one)
            time.sleep(0.002)
        journal.write("in", "both")
        time.sleep(0.002)
        journal.write("out", "both")

    for _ in range(4):
        client.transaction(policy, patience=0.1).run(work)


def once(client: fencelock.Client, journal: Journal, name: str, folder: Path) -> None:
    """Ten callers that all want the work done; the storage refuses a caller that comes too late."""
    from fencelock.guards import SqlGuard  # only this kind of process needs the import

    guard = SqlGuard()

    def charge(lease: fencelock.Lease) -> int:
        journal.write("begins", lease.fence)
        time.sleep(random.random() * 0.1)
        storage = sqlite3.connect(folder / "storage.db", timeout=30)
        with storage:
            guard.check(storage, lease)
            if storage.execute("SELECT count(*) FROM charges").fetchone() == (0,):
                storage.execute("INSERT INTO charges VALUES (?)", [lease.fence])
            ((charged,),) = storage.execute("SELECT fence FROM charges")
        storage.close()
        time.sleep(random.random() * 0.1)
        return int(charged)

    def call() -> None:
        try:
            journal.write("result", client.once(name, charge, ttl=1))
        except (fencelock.LeaseLost, fencelock.StaleFence) as error:
            journal.write("error", type(error).__name__)

    callers = [threading.Thread(target=call) for _ in range(10)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()


if __name__ == "__main__":
    _, deed, url, name, folder = sys.argv
    with fencelock.Client(url) as client:
        globals()[deed](client, Journal(Path(folder)), name, Path(folder))
