"""aioredlock, on one Redis or on many. No fence. It renews with one task per lock."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine, Sequence
from typing import Any, Self

from benchmarks.adapters.contract import AsyncTurns, Keeper
from benchmarks.adapters.limits.redlock import nodes_of


class Aioredlock(AsyncTurns):
    """One manager for all turns. By default it tries three times; here it tries until it has the lock."""

    label = "aioredlock"

    def __init__(self, locks: Any, name: str) -> None:
        self._locks = locks
        self._name = name
        self._held: Any = None

    @classmethod
    async def connect(cls, url: str, name: str) -> Self:
        import aioredlock

        return cls(aioredlock.Aioredlock(nodes_of(url), retry_count=1_000_000), name)

    async def acquire(self) -> None:
        self._held = await self._locks.lock(self._name, lock_timeout=self.ttl)

    async def release(self) -> None:
        await self._locks.unlock(self._held)

    async def close(self) -> None:
        await asyncio.wait_for(self._locks.destroy(), 5)

    @classmethod
    async def crowd(cls, url: str, name: str, size: int) -> Sequence[AsyncTurns]:
        first = await cls.connect(url, name)
        return [first, *(cls(first._locks, name) for _ in range(size - 1))]


class AioredlockKeeper(Keeper):
    """One task per lock."""

    label = "aioredlock"

    def __init__(self, url: str, ttl: int) -> None:
        self._loop = asyncio.new_event_loop()
        threading.Thread(target=self._loop.run_forever, daemon=True).start()
        self._locks: Any = self._ask(self._opened(url, ttl))
        self._held: list[Any] = []

    async def _opened(self, url: str, ttl: int) -> Any:
        import aioredlock

        return aioredlock.Aioredlock([url], internal_lock_timeout=ttl)

    def hold(self, names: Sequence[str]) -> None:
        async def all_of_them() -> None:
            for name in names:
                self._held.append(await self._locks.lock(name))

        self._ask(all_of_them())

    def lost(self) -> int:
        async def count() -> int:
            return sum([not await self._locks.is_locked(lock) for lock in self._held])

        return int(self._ask(count()))

    def _ask(self, question: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(question, self._loop).result()
