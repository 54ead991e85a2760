"""One order, two workers, one of them paused at the worst moment: the customer must pay once.

The first worker has the lock and has seen that the order is unpaid. Then it is stopped for longer than
its ttl, so the second worker gets the lock and charges. When the first worker continues, it *believes* that
it still holds the lock, and no lock service can stop it. The ledger can: every transaction brings the fence
of its lease, and the ledger refuses a fence that is older than the newest.

Run it: python examples/double_payment.py
"""

import multiprocessing
import os
import signal
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import fencelock
from fencelock.guards import SqlGuard

guard = SqlGuard()


@contextmanager
def transaction(folder: Path, lease: fencelock.Lease, fenced: bool) -> Iterator[sqlite3.Connection]:
    """A transaction that begins with the guard's check, also before reads: it refuses a stale holder."""
    with sqlite3.connect(folder / "ledger.db", isolation_level=None) as ledger:
        ledger.execute("BEGIN IMMEDIATE")
        if fenced:
            guard.check(ledger, lease)
        yield ledger


def pay(folder: Path, fenced: bool, stops: bool) -> None:
    """A worker, in a process of its own: charge for order 42 unless that was done already."""
    url = f"sqlite:///{folder}/locks.db"
    try:
        with fencelock.Client(url) as client, client.lock("order:42", ttl=0.5) as lease:
            with transaction(folder, lease, fenced) as ledger:
                paid = ledger.execute("SELECT 1 FROM charges WHERE order_id = '42'").fetchone()
            lease.check()  # still ours, but only at this moment
            if stops:
                os.kill(os.getpid(), signal.SIGSTOP)
            if not paid:
                with transaction(folder, lease, fenced) as ledger:
                    ledger.execute("INSERT INTO charges VALUES ('42', 1999)")
    except (fencelock.StaleFence, fencelock.LeaseLost) as error:
        print(f"  {type(error).__name__}: {error}")


def story(fenced: bool) -> int:
    """Stop the first worker while the second one pays. Returns the number of charges."""
    with tempfile.TemporaryDirectory() as name:
        ledger = sqlite3.connect(Path(name) / "ledger.db")
        ledger.execute("CREATE TABLE charges (order_id TEXT, cents INTEGER)")
        guard.create(ledger)
        spawn = multiprocessing.get_context("spawn").Process
        first, second = (spawn(target=pay, args=(Path(name), fenced, bad)) for bad in (True, False))
        first.start()
        os.waitpid(first.pid or 0, os.WUNTRACED)  # until it is stopped
        second.start()
        second.join()
        os.kill(first.pid or 0, signal.SIGCONT)
        first.join()
        return len(ledger.execute("SELECT * FROM charges").fetchall())


if __name__ == "__main__":
    print("charges with the lock alone:", story(fenced=False))
    print("charges with the fence, too:", story(fenced=True))
