"""The asyncio world: leaves suspend the task."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from random import Random
from typing import Any, TypeVar
from weakref import ref

from fencelock.core.errors import FencelockError
from fencelock.io import clock
from fencelock.io.contract import IO, Event, Task
from fencelock.io.process import Origin

T = TypeVar("T")


class _Event:
    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._event = asyncio.Event()
        self._set = False

    def set(self) -> None:
        self._set = True
        if asyncio._get_running_loop() is self._loop:
            self._event.set()
        elif not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._event.set)

    def clear(self) -> None:
        self._set = False
        self._event.clear()

    def is_set(self) -> bool:
        return self._set

    async def wait(self, timeout: float | None = None) -> bool:
        try:
            async with asyncio.timeout(timeout):
                return await self._event.wait()
        except TimeoutError:
            return False


class _Task:
    def __init__(self, coroutine: Coroutine[Any, Any, None], name: str) -> None:
        # Not by `create_task`: an eager task factory would begin it here and now, and whoever spawns may
        # hold a mutex that it needs.
        self._task = asyncio.Task(coroutine, loop=asyncio.get_running_loop(), name=name)

    async def join(self) -> None:
        if self._task is not asyncio.current_task():
            await asyncio.wait([self._task])


class AsyncioIO(IO):
    """Tasks of one event loop: the loop in which it is first used."""

    blocking = False
    place = staticmethod(asyncio.get_running_loop)

    @property
    def over(self) -> bool:
        return self._loop is not None and self._loop.is_closed()

    def __init__(self) -> None:
        self.random = Random()
        self.now = clock.now  # type: ignore[method-assign]  # one call less on the hot path
        self._origin = Origin()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._executor: ThreadPoolExecutor | None = None
        self._shielded: set[asyncio.Task[Any]] = set()

    def now(self) -> float: ...  # type: ignore[empty-body]

    def event(self) -> Event:
        return _Event(asyncio.get_running_loop())

    def spawn(self, coroutine: Coroutine[Any, Any, None], name: str) -> Task:
        return _Task(coroutine, name)

    async def call(self, function: Callable[..., T], *args: Any) -> T:
        if self._executor is None:
            # One thread, so that calls are carried out in the order in which they were made: the
            # clean-up of a cancelled call can't overtake it.
            self._executor = ThreadPoolExecutor(1, thread_name_prefix="fencelock")
        return await asyncio.get_running_loop().run_in_executor(self._executor, function, *args)

    async def shield(self, coroutine: Coroutine[Any, Any, T]) -> T:
        task = asyncio.create_task(coroutine)
        self._shielded.add(task)  # the loop itself keeps only weak references
        task.add_done_callback(self._shielded.discard)
        return await asyncio.shield(task)

    def caller(self) -> object:
        task = asyncio.current_task(self._loop)  # to find out the running loop takes a system call
        # Weakly: a task that has returned its lease must not keep it alive (see `BaseLease.__del__`).
        return None if task is None else ref(task)

    def verify(self) -> None:
        loop = asyncio._get_running_loop()
        if loop is None or loop is not self._loop:  # in a forked child no loop is running
            self._origin.verify()
            loop = asyncio.get_running_loop()
            if self._loop is not None:
                raise FencelockError(
                    "this belongs to another event loop: a lease can only be used in the loop that "
                    "acquired it. Acquire the lock again in this one"
                )
            self._loop = loop

    async def close(self) -> None:
        if self._shielded:
            await asyncio.wait(self._shielded)
        if self._executor is not None:
            self._executor.shutdown(wait=False)
            self._executor = None
