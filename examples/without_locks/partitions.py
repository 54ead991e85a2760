"""Four workers book deposits. Each account has one worker, so the workers need no lock.

If any worker takes any deposit, two workers change the same balance at the same moment, and money is lost.
The cure is to divide the work by what it changes: all deposits of an account go to the same worker, one
after the other. Message queues do that with a partition key. Different accounts still go in parallel.

It costs: one slow or popular account delays only its own partition, but there it delays everything. And when
the number of workers changes, an account must not be with its old and its new worker at the same time.

Run it: python examples/without_locks/partitions.py
"""

import sqlite3
import tempfile
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from threading import Barrier

WORKERS = 4
ACCOUNTS = (1, 2, 3, 4)
DEPOSITS = [account for account in ACCOUNTS for _ in range(5)]  # 100 cents each

Route = Callable[[int, int], int]


def to_any_worker(number: int, account: int) -> int:
    return number % WORKERS


def to_the_worker_of_the_account(number: int, account: int) -> int:
    return account % WORKERS


def work(file: Path, deposits: Iterable[int], together: Barrier) -> None:
    """One worker: read a balance, add the deposit, write the balance."""
    with closing(sqlite3.connect(file, timeout=60, isolation_level=None)) as bank:
        for place, account in enumerate(deposits):
            find = "SELECT cents FROM accounts WHERE id = ?"
            (cents,) = bank.execute(find, (account,)).fetchone()
            if place == 0:
                together.wait(timeout=30)  # the worst moment: all workers have read once
            bank.execute("UPDATE accounts SET cents = ? WHERE id = ?", (cents + 100, account))


def day(file: Path, route: Route) -> str:
    with closing(sqlite3.connect(file)) as bank:
        with bank:
            bank.execute("CREATE TABLE accounts (id INTEGER PRIMARY KEY, cents INTEGER)")
            bank.executemany("INSERT INTO accounts VALUES (?, 0)", [(each,) for each in ACCOUNTS])
        partitions: list[list[int]] = [[] for _ in range(WORKERS)]
        for number, account in enumerate(DEPOSITS):
            partitions[route(number, account)].append(account)
        together = Barrier(WORKERS)
        with ThreadPoolExecutor(WORKERS) as workers:
            list(workers.map(lambda part: work(file, part, together), partitions))
        (stored,) = bank.execute("SELECT sum(cents) FROM accounts").fetchone()
    expected = 100 * len(DEPOSITS)
    return "nothing is lost" if stored == expected else f"{expected - stored} cents are lost"


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        print("any worker:            ", day(Path(folder) / "one.db", to_any_worker))
        print("one worker per account:", day(Path(folder) / "two.db", to_the_worker_of_the_account))
