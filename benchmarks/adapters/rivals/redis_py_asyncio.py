"""redis.asyncio's Lock: no fence, no queue, no renewal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

from benchmarks.adapters.contract import AsyncTurns


class AsyncRedisPyLock(AsyncTurns):
    """One Lock object for all turns."""

    label = "redis.asyncio Lock"

    def __init__(self, client: Any, name: str) -> None:
        self._client = client
        self._lock = client.lock(name, timeout=self.ttl)

    @classmethod
    async def connect(cls, url: str, name: str) -> Self:
        import redis.asyncio

        return cls(redis.asyncio.Redis.from_url(url), name)

    async def warm_up(self) -> None:
        await self._client.ping()

    async def acquire(self) -> None:
        await self._lock.acquire()

    async def release(self) -> None:
        await self._lock.release()

    async def close(self) -> None:
        await self._client.aclose()

    @classmethod
    async def crowd(cls, url: str, name: str, size: int) -> Sequence[AsyncTurns]:
        first = await cls.connect(url, name)
        return [first, *(cls(first._client, name) for _ in range(size - 1))]
