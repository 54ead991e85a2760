"""A price list that many read at the same time and one replaces now and then.

A list consists of several prices that belong together. Readers share the lock, so they don't wait for
one another; the writer holds it alone, so nobody sees half of an old list and half of a new one. Who
waits is not overtaken: readers who come after the writer wait for it, however many they are.

Run it: python examples/rwlock_cache.py
"""

import threading
import time

import fencelock

READERS = 6
READS = 30
VERSIONS = 5
PRODUCTS = ("apple", "pear", "plum")

prices = dict.fromkeys(PRODUCTS, 1)


def read(client: fencelock.Client, together: threading.Barrier, seen: list[set[int]]) -> None:
    """One reader: it notes down which versions it saw in one list."""
    rwlock = client.rwlock("prices")
    with rwlock.read():
        together.wait(timeout=10)  # passes only if all of them are in here at the same time
    for _ in range(READS):
        with rwlock.read():
            versions = set()
            for product in PRODUCTS:
                versions.add(prices[product])
                time.sleep(0.0005)
        seen.append(versions)


def replace(client: fencelock.Client) -> None:
    """The writer: a new list, price by price; it then turns reader and looks at what it wrote."""
    for version in range(2, VERSIONS + 1):
        with client.rwlock("prices").write() as lease:
            for product in PRODUCTS:
                prices[product] = version
                time.sleep(0.0005)
            lease.downgrade()  # readers come in now, another writer would not
            assert set(prices.values()) == {version}


def main() -> None:
    seen: list[set[int]] = []
    together = threading.Barrier(READERS + 1)
    with fencelock.Client("memory://") as client:
        readers = [
            threading.Thread(target=read, args=(client, together, seen)) for _ in range(READERS)
        ]
        for thread in readers:
            thread.start()
        together.wait(timeout=10)  # else the writer would come between them, and be waited for
        replace(client)
        for thread in readers:
            thread.join()
    mixed = sum(len(versions) > 1 for versions in seen)
    print(f"{len(seen)} lists were read, {mixed} of them mixed")
    print(f"the newest version is {max(prices.values())}")


if __name__ == "__main__":
    main()
