"""A flash sale: eight shops sell the same small stock at the same time, and must not oversell it.

Each sale reads the stock, thinks for a moment, and writes back one less. Without a lock two shops
read the same number, and an item is sold twice. With one, sales take turns, in order of arrival.

Run it: python examples/flash_sale.py
"""

import functools
import multiprocessing
import sqlite3
import tempfile
import time
from contextlib import nullcontext
from pathlib import Path

import holdfast

SHOPS = 8
CUSTOMERS = 120
STOCK = 40


def sell(folder: Path, locked: bool, customers: int) -> int:
    """One shop, in a process of its own: serve customers while there is stock; how many got one."""
    warehouse = sqlite3.connect(folder / "warehouse.db", timeout=60, isolation_level=None)
    sold = 0
    with holdfast.Client(f"sqlite:///{folder}/locks.db") as client:
        lock = client.lock("stock:sneakers", ttl=10)
        for _ in range(customers):
            with lock if locked else nullcontext():
                (left,) = warehouse.execute("SELECT sneakers FROM stock").fetchone()
                if left == 0:
                    break
                time.sleep(0.002)  # the customer's card is looked at
                warehouse.execute("UPDATE stock SET sneakers = ?", (left - 1,))
                sold += 1
    return sold


def sale(folder: Path, locked: bool) -> str:
    """Open all shops at the same moment and add up what they sold."""
    with sqlite3.connect(folder / "warehouse.db") as warehouse:
        warehouse.execute("CREATE TABLE IF NOT EXISTS stock (sneakers INTEGER)")
        warehouse.execute("DELETE FROM stock")
        warehouse.execute("INSERT INTO stock VALUES (?)", (STOCK,))
    context = multiprocessing.get_context("spawn")
    doors = context.Barrier(SHOPS)
    with context.Pool(SHOPS, initializer=doors.wait) as shops:
        shop = functools.partial(sell, folder, locked)
        sold = sum(shops.map(shop, [CUSTOMERS // SHOPS] * SHOPS, chunksize=1))
    return f"{sold} sold of {STOCK}"


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        print("without a lock:", sale(Path(name), locked=False))
        print("with the lock: ", sale(Path(name), locked=True))


if __name__ == "__main__":
    main()
