"""aetcd, over gRPC, for asyncio only. Every waiter watches the same key. No fence."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

from benchmarks.adapters.contract import AsyncTurns
from fencelock.core.url import Url


class Aetcd(AsyncTurns):
    """A new lock object each time. It grants a lease for each attempt."""

    label = "aetcd Lock"

    def __init__(self, client: Any, name: str) -> None:
        self._client = client
        self._name = name
        self._lock: Any = None

    @classmethod
    async def connect(cls, url: str, name: str) -> Self:
        import aetcd

        host, port = Url.parse(url).hosts[0]
        client = aetcd.Client(host=host, port=port)
        await client.connect()
        return cls(client, name)

    async def acquire(self) -> None:
        self._lock = self._client.lock(self._name.encode(), ttl=int(self.ttl))
        assert await self._lock.acquire(timeout=None)

    async def release(self) -> None:
        assert await self._lock.release()

    async def close(self) -> None:
        await self._client.close()

    @classmethod
    async def crowd(cls, url: str, name: str, size: int) -> Sequence[AsyncTurns]:
        first = await cls.connect(url, name)
        return [first, *(cls(first._client, name) for _ in range(size - 1))]
