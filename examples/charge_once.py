"""A message queue delivers one order ten times, and the card must be charged once.

The first worker charges it, and the others wait for the result. If the first one fails, the next one tries.
All workers get the same receipt, also later ones. A lock can't do two things, so the bank's own storage does
them: it checks the fence and refuses a worker that was paused past its ttl; and it remembers a charge of a
worker that died before it could store the result.

Run it: python examples/charge_once.py
"""

import sqlite3
import tempfile
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import fencelock
from fencelock.guards import SqlGuard

DELIVERIES = 10

guard = SqlGuard()


class Bank:
    """A bank that refuses the first call."""

    def __init__(self, folder: Path) -> None:
        self._file = folder / "bank.db"
        self.calls = 0
        with closing(sqlite3.connect(self._file)) as ledger, ledger:
            guard.create(ledger)
            ledger.execute("CREATE TABLE charges (number INTEGER PRIMARY KEY, name TEXT)")

    def charge(self, lease: fencelock.Lease) -> dict[str, int | None]:
        self.calls += 1
        if self.calls == 1:
            raise ConnectionError("the line is busy")
        with closing(sqlite3.connect(self._file)) as ledger, ledger:
            guard.check(ledger, lease)  # first: a stale worker charges nothing
            look = "SELECT number FROM charges WHERE name = ?"
            if done := ledger.execute(look, (lease.name,)).fetchone():
                return {"receipt": done[0]}
            added = ledger.execute("INSERT INTO charges (name) VALUES (?)", (lease.name,))
            return {"receipt": added.lastrowid}

    def charges(self) -> int:
        with closing(sqlite3.connect(self._file)) as ledger:
            (count,) = ledger.execute("SELECT count(*) FROM charges").fetchone()
            return int(count)


def main(bank: Bank) -> None:
    with fencelock.Client("memory://") as client:

        def deliver(_: int) -> str:
            try:
                return str(client.once("charge:order-42", bank.charge, ttl=10, keep=3600))
            except ConnectionError as error:
                return f"failed, to be delivered again: {error}"

        with ThreadPoolExecutor(DELIVERIES) as workers:
            outcomes = list(workers.map(deliver, range(DELIVERIES)))
        for outcome in sorted(set(outcomes)):
            print(f"{outcomes.count(outcome)} × {outcome}")
        print("later:", deliver(DELIVERIES))
    print(f"{bank.calls} calls, {bank.charges()} charge")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as name:
        main(Bank(Path(name)))
