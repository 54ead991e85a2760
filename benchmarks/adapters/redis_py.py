"""redis-py's own Lock: no fence, no queue, no renewal."""

from __future__ import annotations

from typing import Self

import redis
import redis.asyncio

from benchmarks.adapters.contract import AsyncTurns, Turns

TTL_SECONDS = 30


class RedisPyLock(Turns):
    """One Lock object for all turns, which polls every millisecond when it has to wait."""

    label = "redis-py Lock, object reused"

    def __init__(self, url: str, name: str, seat: int = 0, seats: int = 1) -> None:
        self._client = redis.Redis.from_url(url)
        self._client.ping()  # connects
        self._lock = self._client.lock(name, timeout=TTL_SECONDS, sleep=0.001)

    def acquire(self) -> None:
        self._lock.acquire()

    def release(self) -> None:
        self._lock.release()

    def close(self) -> None:
        self._client.close()


class RedisPyLockPolling(RedisPyLock):
    """The same, by the name it has where waiting is what is measured."""

    label = "redis-py Lock, sleep 1 ms"


class RedisPyLockFresh(RedisPyLock):
    """A new Lock object for each turn, as its documentation shows."""

    label = "redis-py Lock, new object"

    def __init__(self, url: str, name: str, seat: int = 0, seats: int = 1) -> None:
        super().__init__(url, name, seat, seats)
        self._name = name

    def acquire(self) -> None:
        self._lock = self._client.lock(self._name, timeout=TTL_SECONDS)
        self._lock.acquire()


class AsyncRedisPyLock(AsyncTurns):
    """redis.asyncio's Lock, one object for all turns."""

    label = "redis.asyncio Lock, object reused"

    def __init__(self, client: redis.asyncio.Redis, name: str) -> None:
        self._client = client
        self._lock = client.lock(name, timeout=TTL_SECONDS)

    @classmethod
    async def connect(cls, url: str, name: str) -> Self:
        return cls(redis.asyncio.Redis.from_url(url), name)

    async def acquire(self) -> None:
        await self._lock.acquire()

    async def release(self) -> None:
        await self._lock.release()

    async def close(self) -> None:
        await self._client.aclose()
