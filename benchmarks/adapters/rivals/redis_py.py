"""redis-py's own Lock: no fence, no queue, no renewal."""

from __future__ import annotations

from typing import Any

from benchmarks.adapters.contract import Turns


class RedisPyLock(Turns):
    """One Lock object for all turns. A waiter polls ten times a second."""

    label = "redis-py Lock"
    sleep = 0.1  # the default of redis-py

    def __init__(self, url: str, name: str, seat: int = 0, seats: int = 1) -> None:
        import redis

        self._client = redis.Redis.from_url(url)
        self._name = name
        self._lock = self._made()

    def _made(self) -> Any:
        return self._client.lock(self._name, timeout=self.ttl, sleep=self.sleep)

    def warm_up(self) -> None:
        self._client.ping()

    def acquire(self) -> None:
        self._lock.acquire()

    def release(self) -> None:
        self._lock.release()

    def close(self) -> None:
        self._client.close()


class RedisPyLockFresh(RedisPyLock):
    """A new Lock object for each turn, as its documentation shows."""

    label = "redis-py Lock, new object"

    def acquire(self) -> None:
        self._lock = self._made()
        self._lock.acquire()


class RedisPyLockBusy(RedisPyLock):
    """A waiter polls a thousand times a second."""

    label = "redis-py Lock, sleep 1 ms"
    sleep = 0.001
