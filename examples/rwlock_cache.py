"""Many threads read a price list at the same time, and one thread replaces it now and then.

A list consists of several prices that belong together. Readers share the lock, so they don't wait for
one another. The writer holds it alone, so nobody sees half of an old list and half of a new one. The
queue is in order of arrival: readers that come after the writer wait for it, however many they are.

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
    """One reader: it collects the versions that it sees in one list."""
    rwlock = client.rwlock("prices")
    with rwlock.read():
        together.wait(timeout=10)  # returns only if all readers are here at the same time
    for _ in range(READS):
        with rwlock.read():
            versions = set()
            for product in PRODUCTS:
                versions.add(prices[product])
                time.sleep(0.0005)
        seen.append(versions)


def replace(client: fencelock.Client) -> None:
    """The writer: it writes a new list, price by price, becomes a reader, and reads what it wrote."""
    for version in range(2, VERSIONS + 1):
        with client.rwlock("prices").write() as lease:
            for product in PRODUCTS:
                prices[product] = version
                time.sleep(0.0005)
            lease.downgrade()  # readers get the lock now, another writer does not
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
        together.wait(timeout=10)  # the writer must not come between them: they would wait for it
        replace(client)
        for thread in readers:
            thread.join()
    mixed = sum(len(versions) > 1 for versions in seen)
    print(f"{len(seen)} lists were read, {mixed} of them mixed")
    print(f"the newest version is {max(prices.values())}")


if __name__ == "__main__":
    main()
