"""A flash sale: eight shops sell the same small stock at the same time, and must not oversell it.

Each sale reads the stock, waits for a moment, and writes the stock minus one. Without a lock, two shops
read the same number, and an item is sold twice. With a lock, sales take turns, in order of arrival.

Run it: python examples/flash_sale.py
"""

import multiprocessing
import sqlite3
import tempfile
import time
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import fencelock

SHOPS = 8
CUSTOMERS = 15
STOCK = 40


def sell(folder: Path, locked: bool, doors: Any, sold: Any) -> None:
    """One shop, in a process of its own: serve its customers while there is stock, and count them."""
    warehouse = sqlite3.connect(folder / "warehouse.db", timeout=60, isolation_level=None)
    with fencelock.Client(f"sqlite:///{folder}/locks.db") as client:
        lock = client.lock("stock:sneakers", ttl=10)
        doors.wait()
        for _ in range(CUSTOMERS):
            with lock if locked else nullcontext():
                (left,) = warehouse.execute("SELECT sneakers FROM stock").fetchone()
                if left == 0:
                    break
                time.sleep(0.002)  # the time to check the customer's card
                warehouse.execute("UPDATE stock SET sneakers = ?", (left - 1,))
            with sold.get_lock():
                sold.value += 1


def sale(folder: Path, locked: bool) -> str:
    """Open all shops at the same moment and add up what they sold."""
    with sqlite3.connect(folder / "warehouse.db") as warehouse:
        warehouse.execute("CREATE TABLE IF NOT EXISTS stock (sneakers INTEGER)")
        warehouse.execute("DELETE FROM stock")
        warehouse.execute("INSERT INTO stock VALUES (?)", (STOCK,))
    context = multiprocessing.get_context("spawn")
    doors, sold = context.Barrier(SHOPS), context.Value("i", 0)
    shops = [context.Process(target=sell, args=(folder, locked, doors, sold)) for _ in range(SHOPS)]
    for shop in shops:
        shop.start()
    for shop in shops:
        shop.join()
    return f"{sold.value} sold of {STOCK}"


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        print("without a lock:", sale(Path(name), locked=False))
        print("with the lock: ", sale(Path(name), locked=True))


if __name__ == "__main__":
    main()
