"""Holdfast, on any engine."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager, AbstractContextManager
from typing import Any, Self

import holdfast
from benchmarks.adapters.contract import AsyncTurns, Turns


class Holdfast(Turns):
    """As the README shows it: a `with`, a new lock object each time."""

    label = "Holdfast"

    def __init__(self, url: str, name: str, seat: int = 0, seats: int = 1) -> None:
        self.client = holdfast.Client(url, ttl=30)
        self._name = name
        self._held: AbstractContextManager[Any]
        self.client.lock(f"{name} of {seat}").acquire().release()  # connects

    def acquire(self) -> None:
        self._held = self.client.lock(self._name)
        self._held.__enter__()

    def release(self) -> None:
        self._held.__exit__(None, None, None)

    def close(self) -> None:
        self.client.close()


class HoldfastReused(Holdfast):
    """One lock object for all turns."""

    label = "Holdfast, object reused"

    def __init__(self, url: str, name: str, seat: int = 0, seats: int = 1) -> None:
        super().__init__(url, name, seat, seats)
        self._lock = self.client.lock(name)

    def acquire(self) -> None:
        self._lease = self._lock.acquire()

    def release(self) -> None:
        self._lease.release()


class HoldfastMutex(Holdfast):
    """To compare other primitives with."""

    label = "Holdfast, the mutex"


class HoldfastReader(Holdfast):
    """A reader, with no writer about."""

    def acquire(self) -> None:
        self._held = self.client.rwlock(self._name).read()
        self._held.__enter__()


class HoldfastSemaphore(Holdfast):
    """One of ten permits."""

    def acquire(self) -> None:
        self._held = self.client.semaphore(self._name, 10)
        self._held.__enter__()


class HoldfastThree(Holdfast):
    """Three locks at once."""

    def acquire(self) -> None:
        self._held = self.client.lock_all([f"{self._name}:{letter}" for letter in "abc"])
        self._held.__enter__()


class HoldfastTransaction(Holdfast):
    """One lock in a transaction."""

    def acquire(self) -> None:
        self._held = self.client.transaction()
        self._held.__enter__().lock(self._name)


class AsyncHoldfast(AsyncTurns):
    """As the README shows it, with `async with`."""

    label = "Holdfast"

    def __init__(self, client: holdfast.AsyncClient, name: str) -> None:
        self.client = client
        self._name = name
        self._held: AbstractAsyncContextManager[Any]

    @classmethod
    async def connect(cls, url: str, name: str) -> Self:
        return cls(holdfast.AsyncClient(url, ttl=30), name)

    async def acquire(self) -> None:
        self._held = self.client.lock(self._name)
        await self._held.__aenter__()

    async def release(self) -> None:
        await self._held.__aexit__(None, None, None)

    async def close(self) -> None:
        await self.client.close()
