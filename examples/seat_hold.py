"""A ticket shop sets a seat aside while the customer pays. If the customer does not, the seat is free again.

The hold is a lock with `renew=False`: it lives for its ttl, and nobody renews it. It keeps two customers
from filling in the same form. What keeps a seat from being sold twice is the UNIQUE constraint: a customer
may click on "buy" in the very moment in which the hold ends.

Run it: python examples/seat_hold.py
"""

import sqlite3
import tempfile
import time
from pathlib import Path

import fencelock

HOLD = 1.5  # a real shop gives its customers some minutes

Holds = dict[str, fencelock.Lease]


def choose(client: fencelock.Client, holds: Holds, customer: str, seat: str) -> None:
    """Set a seat aside for a customer, if it is free."""
    hold = client.lock(f"seat:{seat}", ttl=HOLD, renew=False, label=customer).try_acquire()
    if hold is None:
        print(f"{customer}: {seat} is taken")
    else:
        holds[customer] = hold
        print(f"{customer}: {seat} is yours for a while")


def buy(shop: sqlite3.Connection, holds: Holds, customer: str, seat: str) -> None:
    """Sell the seat, unless somebody was faster."""
    try:
        with shop:
            shop.execute("INSERT INTO tickets VALUES (?, ?)", (seat, customer))
        print(f"{customer}: has bought {seat}")
    except sqlite3.IntegrityError:
        print(f"{customer}: too late, {seat} is sold")
    hold = holds.pop(customer)
    if not hold.lost:
        hold.release()


def main(folder: Path) -> None:
    shop = sqlite3.connect(folder / "shop.db")
    shop.execute("CREATE TABLE tickets (seat TEXT UNIQUE, customer TEXT)")
    holds: Holds = {}
    with fencelock.Client(f"sqlite:///{folder}/locks.db") as client:
        choose(client, holds, "ada", "12A")
        choose(client, holds, "bob", "12A")
        choose(client, holds, "bob", "12B")
        buy(shop, holds, "bob", "12B")
        while client.inspect("seat:12A").holders:  # ada has left the computer
            time.sleep(0.1)
        choose(client, holds, "cem", "12A")
        buy(shop, holds, "cem", "12A")
        buy(shop, holds, "ada", "12A")
    shop.close()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as name:
        main(Path(name))
