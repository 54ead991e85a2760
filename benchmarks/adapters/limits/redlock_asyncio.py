"""The same as `SendToAllReadAll` on bare asyncio protocols."""

from __future__ import annotations

from typing import Self

from benchmarks.adapters.contract import AsyncTurns
from benchmarks.adapters.limits.redis_pair_asyncio import AsyncRawPair
from benchmarks.adapters.limits.redlock import nodes_of


class AsyncSendToAllReadAll(AsyncTurns):
    """It waits for the slowest node."""

    label = "limit: answers of all"

    def __init__(self, pairs: list[AsyncRawPair]) -> None:
        self._pairs = pairs

    @classmethod
    async def connect(cls, url: str, name: str) -> Self:
        return cls([await AsyncRawPair.connect(node, name) for node in nodes_of(url)])

    async def acquire(self) -> None:
        for answer in [pair.ask_to_set() for pair in self._pairs]:
            await answer

    async def release(self) -> None:
        for answer in [pair.ask_to_delete() for pair in self._pairs]:
            await answer

    async def close(self) -> None:
        for pair in self._pairs:
            await pair.close()
