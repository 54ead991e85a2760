"""A message queue delivers one order ten times, and the card must be charged once.

The first worker does it and the others wait for what comes of it. If it fails, the next one tries. All
have the same receipt, as has whoever asks later. That is once as long as the worker keeps its lease; a
worker that is paused for longer than its ttl in the middle of it is refused by the bank's own storage,
which checks the fence.

Run it: python examples/charge_once.py
"""

import sqlite3
import tempfile
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import holdfast
from holdfast.guards import SqlGuard

DELIVERIES = 10

guard = SqlGuard()


class Bank:
    """Its line is busy when it is called for the first time."""

    def __init__(self, folder: Path) -> None:
        self._file = folder / "bank.db"
        self.calls = 0
        with closing(sqlite3.connect(self._file)) as ledger, ledger:
            guard.create(ledger)
            ledger.execute("CREATE TABLE charges (number INTEGER PRIMARY KEY, cents INTEGER)")

    def charge(self, cents: int, lease: holdfast.Lease) -> dict[str, int | None]:
        self.calls += 1
        if self.calls == 1:
            raise ConnectionError("the line is busy")
        with closing(sqlite3.connect(self._file)) as ledger, ledger:
            guard.check(ledger, lease)  # first: whoever was overtaken charges nothing
            added = ledger.execute("INSERT INTO charges (cents) VALUES (?)", (cents,))
            return {"receipt": added.lastrowid, "cents": cents}

    def charges(self) -> int:
        with closing(sqlite3.connect(self._file)) as ledger:
            (count,) = ledger.execute("SELECT count(*) FROM charges").fetchone()
            return int(count)


def main(bank: Bank) -> None:
    with holdfast.Client("memory://") as client:

        def charge(lease: holdfast.Lease) -> dict[str, int | None]:
            return bank.charge(4200, lease)

        def deliver(_: int) -> str:
            try:
                return str(client.once("charge:order-42", charge, ttl=10, keep=3600))
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
