"""One process numbers the invoices of a company. An election chooses it, and a guard refuses the one before.

Invoices need numbers without gaps. If two processes count, two invoices get the same number. The cure is a
single writer, to which all others send their invoices. It reads the last number once, and then counts in its
memory: an invoice costs no lock. A leader that was paused may not know yet that another one leads. So each
write brings the fence of the leader's *term*, and the guard refuses a writer that was replaced.

Run it: python examples/without_locks/single_writer.py
"""

import sqlite3
import tempfile
from contextlib import closing
from pathlib import Path

import fencelock
from fencelock.guards import SqlGuard

guard = SqlGuard()


class Numberer:
    """A process that gives out numbers, from the last one that it finds. With a term, it is guarded."""

    def __init__(self, ledger: sqlite3.Connection, term: fencelock.Term | None = None) -> None:
        self._ledger = ledger
        self._term = term
        with ledger:
            self._begin()  # first: what is read after it stays true, or writes are refused
            (self._last,) = ledger.execute("SELECT coalesce(max(number), 0) FROM i").fetchone()

    def _begin(self) -> None:
        if self._term is not None:
            guard.check(self._ledger, self._term)

    def issue(self, customer: str) -> None:
        with self._ledger:
            self._begin()
            self._ledger.execute("INSERT INTO i VALUES (?, ?)", (self._last + 1, customer))
        self._last += 1


def numbers(ledger: sqlite3.Connection) -> str:
    return " ".join(f"{number}:{who}" for number, who in ledger.execute("SELECT * FROM i"))


def main(folder: Path) -> None:
    url = f"sqlite:///{folder}/locks.db"
    with (
        closing(sqlite3.connect(folder / "ledger.db")) as ledger,
        fencelock.Client(url) as here,
        fencelock.Client(url) as there,
    ):
        guard.create(ledger)
        ledger.execute("CREATE TABLE i (number INTEGER, customer TEXT)")
        one, other = Numberer(ledger), Numberer(ledger)
        one.issue("ada")
        other.issue("bob")
        print("two writers:  ", numbers(ledger))

        ledger.execute("DELETE FROM i")
        old = Numberer(ledger, here.election("invoices", "here").campaign())
        old.issue("ada")
        old.issue("bob")
        there.break_lock("invoices")  # as if the leader had been paused for longer than its ttl
        with there.election("invoices", "there") as term:
            new = Numberer(ledger, term)
            new.issue("cy")
            try:
                old.issue("dan")
            except fencelock.StaleFence:
                print("refused:       the old leader")
            new.issue("dan")  # the customer asks the new leader
        print("single writer:", numbers(ledger))


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as name:
        main(Path(name))
