"""A shop charges a card, the answer is lost, and the shop tries again. The customer must pay once.

The shop can't know whether the first request arrived. So it makes a key *before the first attempt*, and
sends the same key with each attempt. The bank stores the key with the charge, in one transaction. A request
with a known key gets the stored receipt, also if two attempts arrive at the same moment.

Run it: python examples/without_locks/idempotency_key.py
"""

import sqlite3
import tempfile
import uuid
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path


class Bank:
    """A bank that charges, and then loses its first answer."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._answers = 0
        with closing(self._open()) as ledger:
            ledger.execute(
                "CREATE TABLE charges (receipt INTEGER PRIMARY KEY, key TEXT UNIQUE, cents INTEGER)"
            )

    def _open(self) -> sqlite3.Connection:
        return sqlite3.connect(self._file, timeout=60)

    def charge(self, cents: int, key: str | None) -> int:
        with closing(self._open()) as ledger, ledger:
            add = "INSERT INTO charges (key, cents) VALUES (?, ?) ON CONFLICT (key) DO NOTHING"
            added = ledger.execute(add, (key, cents))
            receipt = added.lastrowid
            if added.rowcount == 0:  # the work is done already: give the same answer
                known = "SELECT receipt, cents FROM charges WHERE key = ?"
                receipt, before = ledger.execute(known, (key,)).fetchone()
                if before != cents:
                    raise ValueError("the same key with another sum: that is another charge")
        self._answers += 1
        if self._answers == 1:
            raise ConnectionError("the answer is lost, but the charge is in the ledger")
        return int(receipt or 0)

    def charges(self) -> int:
        with closing(self._open()) as ledger:
            (count,) = ledger.execute("SELECT count(*) FROM charges").fetchone()
            return int(count)


def buy(bank: Bank, key: str | None) -> str:
    """Try until there is an answer; and then an impatient customer clicks twice more."""
    receipts = set()
    try:
        bank.charge(1999, key)
    except ConnectionError:
        receipts.add(bank.charge(1999, key))
    with ThreadPoolExecutor(2) as clicks:
        receipts.update(clicks.map(lambda _: bank.charge(1999, key), range(2)))
    return f"charged {bank.charges()} ×, {len(receipts)} receipt numbers"


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        print("without a key:", buy(Bank(Path(folder) / "one.db"), None))
        print("with a key:   ", buy(Bank(Path(folder) / "two.db"), str(uuid.uuid4())))
