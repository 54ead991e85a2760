"""kazoo's recipes: a queue, but no ttl and no fence, and a lost session goes unnoticed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from benchmarks.adapters.contract import Turns


class KazooLock(Turns):
    """One Lock object for all turns."""

    label = "kazoo Lock"

    def __init__(self, url: str, name: str, seat: int = 0, seats: int = 1) -> None:
        self._client = connected(url)
        self._lock = self._made(name, seat)

    def _made(self, name: str, seat: int) -> Any:
        return self._client.Lock(f"/{name}", str(seat))

    def acquire(self) -> None:
        self._lock.acquire()

    def release(self) -> None:
        self._lock.release()

    def close(self) -> None:
        self._client.stop()
        self._client.close()

    @classmethod
    def crowd(cls, url: str, name: str, taken: Sequence[int], seats: int) -> Sequence[Turns]:
        first = cls(url, name, taken[0], seats)
        others = [cls.__new__(cls) for _ in taken[1:]]
        for seat, other in zip(taken[1:], others, strict=True):
            other._client = first._client
            other._lock = other._made(name, seat)
        return [first, *others]


class KazooReadLock(KazooLock):
    """A reader, without any writer."""

    label = "kazoo ReadLock"

    def _made(self, name: str, seat: int) -> Any:
        return self._client.ReadLock(f"/{name}", str(seat))


class KazooSemaphore(KazooLock):
    """One of ten permits."""

    label = "kazoo Semaphore"

    def _made(self, name: str, seat: int) -> Any:
        return self._client.Semaphore(f"/{name}", str(seat), max_leases=10)


def connected(url: str) -> Any:
    """A kazoo client. The URL is zookeeper://…"""
    from kazoo.client import KazooClient

    client = KazooClient(url.removeprefix("zookeeper://"))
    client.start()
    return client
