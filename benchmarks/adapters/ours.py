"""Fencelock, on any engine."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from typing import Any, ClassVar, Self
from uuid import uuid4

import fencelock
from benchmarks.adapters.contract import AsyncTurns, Keeper, Turns
from fencelock.observe.prometheus import Metrics


class Fencelock(Turns):
    """As in the README: with `with`, and a new lock object each time."""

    label = "Fencelock"

    def __init__(self, url: str, name: str, seat: int = 0, seats: int = 1) -> None:
        self.client = self._client(url)
        self._name = name
        self._held: AbstractContextManager[Any]
        self.warm_up()

    def _client(self, url: str) -> fencelock.Client:
        return fencelock.Client(url, ttl=self.ttl)

    def warm_up(self) -> None:
        with self.client.lock(f"{self._name}:{uuid4()}"):
            pass

    def acquire(self) -> None:
        self._held = self.client.lock(self._name)
        self._held.__enter__()

    def release(self) -> None:
        self._held.__exit__(None, None, None)

    def close(self) -> None:
        self.client.close()

    @classmethod
    def crowd(cls, url: str, name: str, taken: Sequence[int], seats: int) -> Sequence[Turns]:
        first = cls(url, name, taken[0], seats)
        return [first, *(copy.copy(first) for _ in taken[1:])]


class FencelockReused(Fencelock):
    """One lock object for all turns."""

    label = "Fencelock, object reused"

    def __init__(self, url: str, name: str, seat: int = 0, seats: int = 1) -> None:
        super().__init__(url, name, seat, seats)
        self._lock = self.client.lock(name)

    def acquire(self) -> None:
        self._lease = self._lock.acquire()

    def release(self) -> None:
        self._lease.release()


class FencelockMeasured(Fencelock):
    """With the metrics for Prometheus."""

    label = "Fencelock, with metrics"

    def _client(self, url: str) -> fencelock.Client:
        metrics = Metrics({"counted-*": "counted"}, registry=None)
        return fencelock.Client(url, ttl=self.ttl, observers=[metrics])


class FencelockSession(Fencelock):
    """On the database's own locks, which last as long as a connection. No ttl."""

    label = "Fencelock, session lock"
    schemes: ClassVar = {"mysql": "mysql+getlock", "postgresql": "postgresql+advisory"}

    def _client(self, url: str) -> fencelock.Client:
        scheme, _, rest = url.partition("://")
        return fencelock.Client(f"{self.schemes[scheme]}://{rest}")


class FencelockMutex(Fencelock):
    """The mutex, for comparison with other primitives."""

    label = "Fencelock, the mutex"


class FencelockReader(Fencelock):
    """A reader, without any writer."""

    def acquire(self) -> None:
        self._held = self.client.rwlock(self._name).read()
        self._held.__enter__()


class FencelockSemaphore(Fencelock):
    """One of ten permits."""

    def acquire(self) -> None:
        self._held = self.client.semaphore(self._name, 10)
        self._held.__enter__()


class FencelockThree(Fencelock):
    """Three locks at once."""

    def acquire(self) -> None:
        self._held = self.client.lock_all([f"{self._name}:{letter}" for letter in "abc"])
        self._held.__enter__()


class FencelockTransaction(Fencelock):
    """One lock in a transaction."""

    def acquire(self) -> None:
        self._held = self.client.transaction()
        self._held.__enter__().lock(self._name)


class AsyncFencelock(AsyncTurns):
    """As in the README, with `async with`."""

    label = "Fencelock, asyncio"

    def __init__(self, client: fencelock.AsyncClient, name: str) -> None:
        self.client = client
        self._name = name
        self._held: AbstractAsyncContextManager[Any]

    @classmethod
    async def connect(cls, url: str, name: str) -> Self:
        return cls(fencelock.AsyncClient(url, ttl=cls.ttl), name)

    async def warm_up(self) -> None:
        async with self.client.lock(f"{self._name}:{uuid4()}"):
            pass

    async def acquire(self) -> None:
        self._held = self.client.lock(self._name)
        await self._held.__aenter__()

    async def release(self) -> None:
        await self._held.__aexit__(None, None, None)

    async def close(self) -> None:
        await self.client.close()

    @classmethod
    async def crowd(cls, url: str, name: str, size: int) -> Sequence[AsyncTurns]:
        first = await cls.connect(url, name)
        return [first, *(copy.copy(first) for _ in range(size - 1))]


class FencelockKeeper(Keeper):
    """One client. Its keeper renews many leases with one request."""

    label = "Fencelock"

    def __init__(self, url: str, ttl: int) -> None:
        self._client = fencelock.Client(url, ttl=ttl)
        self._client.lock("first").acquire().release()  # connects
        self._leases: list[fencelock.Lease] = []

    def hold(self, names: Sequence[str]) -> None:
        self._leases = [self._client.lock(name).acquire() for name in names]

    def lost(self) -> int:
        return sum(lease.state is not fencelock.LeaseState.HELD for lease in self._leases)
