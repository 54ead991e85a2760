"""Four customers want the last three pieces at the same moment. One statement counts them, without a lock.

A program that reads the stock, thinks, and writes the stock minus one sells a piece twice: all customers
read the same number. The cure is to let the database do the whole step: `SET pieces = pieces - 1 WHERE
pieces > 0`. The number of changed rows says whether this customer got a piece.

Run it: python examples/without_locks/atomic_update.py
"""

import sqlite3
import tempfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from functools import partial
from pathlib import Path
from threading import Barrier

CUSTOMERS, STOCK = 4, 3

Buy = Callable[[Path, Barrier, int], bool]


def open_shop(file: Path) -> sqlite3.Connection:
    return sqlite3.connect(file, timeout=60, isolation_level=None)  # each statement commits


def read_then_write(file: Path, together: Barrier, _: int) -> bool:
    with closing(open_shop(file)) as shop:
        (pieces,) = shop.execute("SELECT pieces FROM stock").fetchone()
        together.wait(timeout=30)  # the worst moment: all have read, and nobody has written
        if pieces > 0:
            shop.execute("UPDATE stock SET pieces = ?", (pieces - 1,))
        return bool(pieces > 0)


def in_one_statement(file: Path, together: Barrier, _: int) -> bool:
    with closing(open_shop(file)) as shop:
        together.wait(timeout=30)
        changed = shop.execute("UPDATE stock SET pieces = pieces - 1 WHERE pieces > 0").rowcount
        return changed == 1


def sale(file: Path, buy: Buy) -> str:
    with closing(open_shop(file)) as shop:
        shop.execute("CREATE TABLE stock (pieces INTEGER)")
        shop.execute("INSERT INTO stock VALUES (?)", (STOCK,))
        with ThreadPoolExecutor(CUSTOMERS) as customers:
            sold = sum(customers.map(partial(buy, file, Barrier(CUSTOMERS)), range(CUSTOMERS)))
        (left,) = shop.execute("SELECT pieces FROM stock").fetchone()
    return f"{sold} of {STOCK} sold, {left} left"


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        print("read, then write:", sale(Path(folder) / "one.db", read_then_write))
        print("one statement:   ", sale(Path(folder) / "two.db", in_one_statement))
