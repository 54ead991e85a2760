"""kazoo: its own Lock, and the least that a lock on ZooKeeper can do. The URL is zookeeper://…"""

from __future__ import annotations

from typing import Any

from kazoo.client import KazooClient

from benchmarks.adapters.contract import Turns


def _connected(url: str) -> Any:
    client = KazooClient(url.removeprefix("zookeeper://"))
    client.start()
    return client


class KazooLock(Turns):
    """One Lock object for all turns: no ttl, no fence, and it does not notice a lost session."""

    label = "kazoo Lock, object reused"

    def __init__(self, url: str, name: str, seat: int = 0, seats: int = 1) -> None:
        self._client = _connected(url)
        self._lock = self._client.Lock(f"/{name}", str(seat))

    def acquire(self) -> None:
        self._lock.acquire()

    def release(self) -> None:
        self._lock.release()

    def close(self) -> None:
        self._client.stop()
        self._client.close()


class KazooReadLock(KazooLock):
    """A reader, with no writer about."""

    label = "kazoo ReadLock, object reused"

    def __init__(self, url: str, name: str, seat: int = 0, seats: int = 1) -> None:
        super().__init__(url, name, seat, seats)
        self._lock = self._client.ReadLock(f"/{name}", str(seat))


class KazooSemaphore(KazooLock):
    """One of ten permits."""

    label = "kazoo Semaphore, object reused"

    def __init__(self, url: str, name: str, seat: int = 0, seats: int = 1) -> None:
        super().__init__(url, name, seat, seats)
        self._lock = self._client.Semaphore(f"/{name}", str(seat), max_leases=10)


class BarePair(Turns):
    """Create a node, delete it: two round trips, and nobody knows who else is there."""

    label = "limit: bare create and delete"

    def __init__(self, url: str, name: str, seat: int = 0, seats: int = 1) -> None:
        self._client = _connected(url)
        self._path = f"/{name}/"
        self._client.ensure_path(self._path)

    def acquire(self) -> None:
        self._node = self._client.create(self._path, b"me", ephemeral=True, sequence=True)

    def release(self) -> None:
        self._client.delete(self._node)

    def close(self) -> None:
        self._client.stop()
        self._client.close()
