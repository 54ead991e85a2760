"""A concert ends, and six riders ask for a car at the same door. No driver may be given to two of them.

A dispatcher offers the ride to the nearest free driver, who takes a while to answer. Without a lock, all ask
the same driver. With a lock per driver nobody waits: a driver whose lock is taken is being asked already, so
try the next one. A guard refuses a dispatcher that was paused for longer than its ttl.

Run it: python examples/ride_dispatch.py
"""

import sqlite3
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from threading import Barrier

import fencelock
from fencelock.guards import SqlGuard

RIDERS, DRIVERS = 6, 8


class City:
    """The drivers, the nearest first, and the rides that they have accepted."""

    def __init__(self, file: Path) -> None:
        self.open = partial(sqlite3.connect, file, timeout=60)
        self.guard = SqlGuard(open=self.open)
        with self.open() as city:
            self.guard.create(city)
            city.execute("CREATE TABLE rides (driver INTEGER, rider INTEGER)")

    def is_free(self, driver: int) -> bool:
        look = "SELECT 1 FROM rides WHERE driver = ?"
        return self.open().execute(look, (driver,)).fetchone() is None

    def assign(self, driver: int, rider: int, lease: fencelock.Lease | None = None) -> None:
        with self.open() as city:
            if lease is not None:
                self.guard.check(city, lease)
            city.execute("INSERT INTO rides VALUES (?, ?)", (driver, rider))

    def summary(self) -> str:
        ask = "SELECT count(*) || ' rides, drivers: ' || count(DISTINCT driver) FROM rides"
        return str(self.open().execute(ask).fetchone()[0])


def without_locks(city: City, rider: int, together: Barrier) -> None:
    driver = next(each for each in range(1, DRIVERS + 1) if city.is_free(each))
    together.wait(timeout=30)  # the worst moment: all have found the same driver
    city.assign(driver, rider)


def with_locks(city: City, rider: int, client: fencelock.Client) -> None:
    for driver in range(1, DRIVERS + 1):
        lease = client.lock(f"driver:{driver}", ttl=30, guard=city.guard).try_acquire()
        if lease is None:
            continue  # another dispatcher is asking this driver
        with lease:
            if city.is_free(driver):
                time.sleep(0.01)  # the driver looks at the offer, and accepts
                city.assign(driver, rider, lease)
                return


def main(folder: Path) -> None:
    one, two, together = City(folder / "one.db"), City(folder / "two.db"), Barrier(RIDERS)
    with (
        ThreadPoolExecutor(RIDERS) as dispatchers,
        fencelock.Client(f"sqlite:///{folder}/locks.db", purpose="correctness") as client,
    ):
        list(dispatchers.map(lambda rider: without_locks(one, rider, together), range(RIDERS)))
        list(dispatchers.map(lambda rider: with_locks(two, rider, client), range(RIDERS)))
    print(f"without locks: {one.summary()}\nwith locks:    {two.summary()}")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as name:
        main(Path(name))
