"""Four clerks move money between the same accounts, each transfer under the locks of both accounts.

Ada to Bob and Bob to Ada at the same moment: with one lock after the other, each clerk would hold the
account that the other clerk waits for. `lock_all` takes all locks in one global order, in whatever order the
caller names them. The transaction begins with the guard's check of both fences.

Run it: python examples/transfer_all.py
"""

import functools
import multiprocessing
import random
import sqlite3
import tempfile
from pathlib import Path

import fencelock
from fencelock.guards import SqlGuard

CLERKS = 4
TRANSFERS = 25
ACCOUNTS = ("ada", "bob", "cy")

guard = SqlGuard()


def clerk(folder: Path, seed: int) -> int:
    """One clerk, in a process of its own. Returns how many transfers it made."""
    chance = random.Random(seed)
    bank = sqlite3.connect(folder / "bank.db", timeout=60)
    with fencelock.Client(f"sqlite:///{folder}/locks.db") as client:
        for _ in range(TRANSFERS):
            giver, taker = chance.sample(ACCOUNTS, 2)
            names = [f"account:{giver}", f"account:{taker}"]
            with client.lock_all(names, ttl=10, timeout=60) as leases, bank:
                for lease in leases.values():
                    guard.check(bank, lease)
                move(bank, giver, taker, chance.randint(1, 20))
    bank.close()
    return TRANSFERS


def move(bank: sqlite3.Connection, giver: str, taker: str, cents: int) -> None:
    """Read both balances, and write both back."""
    balances = dict(bank.execute("SELECT owner, cents FROM accounts").fetchall())
    change = "UPDATE accounts SET cents = ? WHERE owner = ?"
    bank.execute(change, (balances[giver] - cents, giver))
    bank.execute(change, (balances[taker] + cents, taker))


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        bank = sqlite3.connect(folder / "bank.db")
        with bank:
            guard.create(bank)
            bank.execute("CREATE TABLE accounts (owner TEXT PRIMARY KEY, cents INTEGER)")
            bank.executemany("INSERT INTO accounts VALUES (?, 1000)", [(who,) for who in ACCOUNTS])
        with multiprocessing.get_context("spawn").Pool(CLERKS) as clerks:
            made = sum(clerks.map(functools.partial(clerk, folder), range(CLERKS), chunksize=1))
        (total,) = bank.execute("SELECT sum(cents) FROM accounts").fetchone()
        bank.close()
    print(f"{made} transfers, nobody waited in a circle")
    print(f"{total} cents, as before")


if __name__ == "__main__":
    main()
