"""redlock-ng: one node after the other, or with asyncio all at once. No fence, no renewal."""

from __future__ import annotations

from typing import Any, Self

from benchmarks.adapters.contract import AsyncTurns, Turns
from benchmarks.adapters.limits.redlock import nodes_of


class RedlockNg(Turns):
    """As in its documentation. A node may take 0.1 s to answer, the default."""

    label = "redlock-ng"

    def __init__(self, url: str, name: str, seat: int = 0, seats: int = 1) -> None:
        import redlock

        self._locks: Any = redlock.Redlock(nodes_of(url))
        self._name = name
        self._held: Any = None

    def acquire(self) -> None:
        self._held = self._locks.acquire(self._name, ttl=int(self.ttl * 1000))
        assert self._held

    def release(self) -> None:
        self._locks.release(self._held)

    def close(self) -> None:
        for instance in self._locks.client.instances:
            instance.close()


class AsyncRedlockNg(AsyncTurns):
    """The same with asyncio."""

    label = "redlock-ng, asyncio"

    def __init__(self, locks: Any, name: str) -> None:
        self._locks = locks
        self._name = name
        self._held: Any = None

    @classmethod
    async def connect(cls, url: str, name: str) -> Self:
        import redlock

        return cls(redlock.AsyncRedlock(nodes_of(url)), name)

    async def acquire(self) -> None:
        self._held = await self._locks.acquire(self._name, ttl=int(self.ttl * 1000))
        assert self._held

    async def release(self) -> None:
        await self._locks.release(self._held)

    async def close(self) -> None:
        for instance in self._locks.client.instances:
            await instance.aclose()
