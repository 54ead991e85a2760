"""Customers reserve pieces of a small stock in PostgreSQL, with psycopg; the lock is in the same database.

With `guard=` the lock shows its fence to the database as soon as it is acquired, before anything is read. So
what you read stays true until you write, or your write is refused.

Run it: python examples/reserve_stock.py postgresql://user:password@localhost/database
"""

import sys
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import psycopg

import fencelock
from fencelock.guards import SqlGuard

STOCK = 20
CUSTOMERS = 30


def reserve(client: fencelock.Client, guard: SqlGuard, url: str, customer: int) -> bool:
    """Reserve a piece for a customer, if there is one."""
    with client.lock("stock:sneakers", guard=guard) as lease:
        with psycopg.connect(url) as connection:
            row = connection.execute("SELECT pieces FROM example_stock").fetchone()
        if row is None or row[0] == 0:
            return False
        # Slow work is fine here: ask the customer, call a bank. If it takes too long and another
        # process gets the lock, the transaction below is refused and rolled back.
        with psycopg.connect(url) as connection:
            guard.check(connection, lease)
            connection.execute("UPDATE example_stock SET pieces = %s", (row[0] - 1,))
            connection.execute("INSERT INTO example_reservations VALUES (%s)", (customer,))
    return True


def main(url: str) -> None:
    guard = SqlGuard("example_fences", open=partial(psycopg.connect, url))
    with psycopg.connect(url) as connection:
        guard.create(connection)
        connection.execute("CREATE TABLE example_stock (pieces INTEGER)")
        connection.execute("INSERT INTO example_stock VALUES (%s)", (STOCK,))
        connection.execute("CREATE TABLE example_reservations (customer INTEGER)")
    with fencelock.Client(url) as client, ThreadPoolExecutor(8) as shops:
        served = list(shops.map(partial(reserve, client, guard, url), range(CUSTOMERS)))
    with psycopg.connect(url) as connection:
        left = connection.execute("SELECT pieces FROM example_stock").fetchone()
        made = connection.execute("SELECT count(*) FROM example_reservations").fetchone()
        connection.execute("DROP TABLE example_fences, example_stock, example_reservations")
    print(f"{sum(served)} customers were served, {made and made[0]} reservations were made")
    print(f"{left and left[0]} pieces are left")


if __name__ == "__main__":
    main(sys.argv[1])
