"""The cells in which the tests run: one engine with one face, {sync, async}. A test is written once.

An `Actor` is a thread or a task with an identity of its own. `actor.do(lambda: lock.acquire())` means
the same in both faces: the methods have the same names, and a coroutine is awaited.
"""

from __future__ import annotations

import asyncio
import queue
import sys
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, Self
from uuid import uuid4

import pytest

import fencelock
from fencelock.core.durations import Duration
from fencelock.engines.contract import Traits
from fencelock.io.blocking import run
from fencelock.primitives.claim import Claim
from fencelock.testing.conformance.waiting import soon

FACES = ("sync", "async")

Job = tuple[Callable[[], Any], "Future[Any]"]


class Actor(ABC):
    """One caller: leases, re-entry and deadlocks are told apart by who asks."""

    @abstractmethod
    async def do(self, act: Callable[[], Any]) -> Any:
        """Act as this caller, and wait for the outcome."""

    def start(self, act: Callable[[], Any]) -> asyncio.Task[Any]:
        """Act as this caller in the background of the test."""
        return asyncio.create_task(self.do(act))

    @abstractmethod
    async def close(self) -> None: ...


class ThreadActor(Actor):
    def __init__(self) -> None:
        self._jobs: queue.SimpleQueue[Job | None] = queue.SimpleQueue()
        threading.Thread(target=self._run, daemon=True).start()

    async def do(self, act: Callable[[], Any]) -> Any:
        future: Future[Any] = Future()
        self._jobs.put((act, future))
        return await asyncio.wrap_future(future)

    async def close(self) -> None:
        self._jobs.put(None)

    def _run(self) -> None:
        while (job := self._jobs.get()) is not None:
            act, future = job
            try:
                result = act()
            except BaseException as error:
                if not future.cancelled():
                    future.set_exception(error)
            else:
                if not future.cancelled():
                    future.set_result(result)


class TaskActor(Actor):
    def __init__(self) -> None:
        self._jobs: asyncio.Queue[tuple[Callable[[], Any], asyncio.Future[Any]]] = asyncio.Queue()
        self._task = asyncio.create_task(self._run())

    async def do(self, act: Callable[[], Any]) -> Any:
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._jobs.put_nowait((act, future))
        return await future

    async def close(self) -> None:
        self._task.cancel()
        await asyncio.wait([self._task])

    async def _run(self) -> None:
        while True:
            act, future = await self._jobs.get()
            try:
                result = act()
                if asyncio.iscoroutine(result):
                    result = await result
            except Exception as error:
                if not future.cancelled():
                    future.set_exception(error)
            else:
                if not future.cancelled():
                    future.set_result(result)


class Cell:
    """One engine with one face, and everything a test makes in it."""

    def __init__(self, engine: str, face: str, url: str) -> None:
        self.engine = engine
        self.face = face
        self.url = url
        self.name = f"test:{uuid4().hex}"
        self._clients: list[Any] = []
        self._actors: list[Actor] = []
        self._results: list[Any] = []
        """What was acquired, until the end of the test: a lease that nobody keeps is not renewed."""

    def client(self, **options: Any) -> Any:
        """A client of this face: `Client` or `AsyncClient`."""
        kind = fencelock.Client if self.face == "sync" else fencelock.AsyncClient
        self._clients.append(kind(self.url, **options))
        return self._clients[-1]

    def actor(self) -> Actor:
        self._actors.append(ThreadActor() if self.face == "sync" else TaskActor())
        return self._actors[-1]

    def needs(self, trait: str) -> None:
        """Skip the test if this engine declares that it can't do that."""
        if not getattr(self.traits, trait):
            pytest.skip(f"trait {trait}=False")

    @property
    def traits(self) -> Traits:
        """What this engine promises, after a first contact if it is not known before."""
        with fencelock.Client(self.url) as client:
            if client.traits.provisional:
                client.names("nothing")
            return client.traits

    async def run(self, act: Callable[[], Any], *, keep: bool = True) -> Any:
        """Act as a caller of no importance. The result lives as long as the cell, unless told otherwise."""
        actor = ThreadActor() if self.face == "sync" else TaskActor()
        try:
            result = await actor.do(act)
        finally:
            await actor.close()
        if keep:
            self._results.append(result)
        return result

    async def close(self) -> None:
        for actor in self._actors:
            await actor.close()
        for client in self._clients:
            await self.run(client.close)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()


def lasting(client: Any, ttl: Duration) -> dict[str, Duration]:
    """A ttl to ask for, of an engine that has one: `client.lock(name, **lasting(client, 0.5))`."""
    return {"ttl": ttl} if client.traits.leases_expire else {}


def act(cell: Cell, coroutine: Any) -> Any:
    """Call an engine as the cell's face would."""
    return cell.run(lambda: run(coroutine) if cell.face == "sync" else coroutine)


async def queued(cell: Cell, client: Any, count: int, name: str | None = None) -> None:
    """Wait until `count` tickets wait for the lock."""

    async def enough() -> bool:
        seen = await cell.run(lambda: client.inspect(name or cell.name))
        return bool(seen.waiting >= count)

    await soon(enough, f"{count} waiting tickets")


async def answered(client: Any, count: int) -> None:
    """Wait until a client has heard that `count` of its tickets hold or wait.

    Who looks at the server only may see a ticket whose client still waits for the first answer. If
    the connection ends then, the call fails: nobody has joined a queue that survives it.
    """

    await soon(lambda: len(kept_by(client)) >= count, f"{count} answers")


def kept_by(client: Any) -> list[Claim]:
    """The claims whose tickets a client renews."""
    claims: list[Claim] = client._context.every()
    return claims


def be_patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """For tests that are not about the timeout of one request: a busy machine stalls for longer."""
    for name, module in list(sys.modules.items()):
        if name.startswith(("fencelock.primitives", "fencelock.client")):
            for limit in ("REQUEST_TIMEOUT", "MIN_TIMEOUT"):
                if hasattr(module, limit):
                    monkeypatch.setattr(module, limit, 10.0)


OpenCell = Callable[[str], Cell]
"""How a test of one engine opens a cell at a URL of its own."""
