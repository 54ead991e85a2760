"""Five philosophers at a round table, with five forks. Each needs the fork on either side to eat.

All take their left fork first. With plain locks, each then waits for the fork of the neighbour, in a circle:
nobody eats. With transactions, a philosopher that would wait in a circle puts its fork back and tries again.
Its transaction keeps its age, so it gets its turn.

Run it: python examples/dining.py
"""

import tempfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import fencelock

SEATS = 5
MEALS = 20


def fork(number: int) -> str:
    return f"fork {number % SEATS}"


def stubborn(client: fencelock.Client, seat: int, table: Barrier) -> tuple[int, int]:
    """Plain locks: left, then right. Returns how often it ate, and how often it gave way."""
    with client.lock(fork(seat)):
        table.wait(timeout=10)  # now each has one fork
        try:
            with client.lock(fork(seat + 1), timeout=0.5):
                return 1, 0
        except fencelock.LockTimeout:
            table.wait(timeout=10)  # nobody puts a fork back before all have timed out
            return 0, 0


def courteous(client: fencelock.Client, seat: int, table: Barrier) -> tuple[int, int]:
    """Transactions: left, then right, again and again until both are there."""
    eaten, gave_way = 0, 0

    def eat(transaction: fencelock.Transaction) -> None:
        transaction.lock(fork(seat))
        if eaten == 0 and transaction.attempts == 1:
            table.wait(timeout=10)  # now each has one fork, so somebody has to give way
        transaction.lock(fork(seat + 1))

    while eaten < MEALS:
        transaction = client.transaction("wait-die", ttl=10, timeout=60)
        transaction.run(eat)
        eaten += 1
        gave_way += transaction.attempts - 1
    return eaten, gave_way


def dine(url: str, manner: Callable[[fencelock.Client, int, Barrier], tuple[int, int]]) -> str:
    """Let all eat at once, each with a client of its own, as if they were processes."""
    table = Barrier(SEATS)

    def sit(seat: int) -> tuple[int, int]:
        with fencelock.Client(url, label=f"philosopher {seat}") as client:
            return manner(client, seat, table)

    with ThreadPoolExecutor(SEATS) as seats:
        outcomes = list(seats.map(sit, range(SEATS)))
    meals, ways = (sum(numbers) for numbers in zip(*outcomes, strict=True))
    return f"{meals} meals" + (f", gave way {ways} times" if ways else "")


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        print("with plain locks:", dine(f"sqlite:///{folder}/locks.db", stubborn))
        print("in transactions: ", dine(f"sqlite:///{folder}/locks.db", courteous))


if __name__ == "__main__":
    main()
