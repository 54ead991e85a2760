"""Threads and asyncio as they are, but with the clock of a testing client and without real time."""

from __future__ import annotations

import asyncio
import threading
from abc import abstractmethod
from collections.abc import Coroutine, Generator
from contextvars import ContextVar
from typing import Any

from fencelock.io.asyncio import AsyncioIO
from fencelock.io.blocking import BlockingIO
from fencelock.io.contract import IO, Event, Task
from fencelock.testing.clock import BackgroundTask, Timeline, Wait

_TURNS = 20
"""Turns of the event loop in which other tasks can go on, before a waiting test moves the clock."""

played: ContextVar[str | None] = ContextVar("fencelock-testing-caller", default=None)
"""The caller that the test plays in this thread or task."""


class _Event:
    """A flag. To wait for it takes no real time, unless another thread or task must set it."""

    def __init__(self, io: ClockedIO) -> None:
        self._io = io
        self._set = False
        self._waits: list[Wait] = []

    def set(self) -> None:
        self._set = True
        for wait in tuple(self._waits):
            wait.end(True)

    def clear(self) -> None:
        self._set = False

    def is_set(self) -> bool:
        return self._set

    async def wait(self, timeout: float | None = None) -> bool:
        if self._set or (timeout is not None and timeout <= 0):
            return self._set
        timeline = self._io.timeline
        task = timeline.task
        wait = self._io.new_wait() if task is None else _InBackground(timeline, task)
        self._waits.append(wait)
        try:
            if self.is_set():  # by another thread, just now
                wait.end(True)
            if timeout is not None:
                timeline.at(timeline.now() + timeout, wait)
            await wait.sleep(endless=timeout is None)
        finally:
            timeline.forget(wait)
            self._waits.remove(wait)
        return wait.happened


class _InBackground(Wait):
    def __init__(self, timeline: Timeline, task: BackgroundTask) -> None:
        super().__init__(timeline)
        self._task = task

    def wake(self) -> None:
        self.timeline.ready.append(self._task)

    async def sleep(self, *, endless: bool) -> None:
        while not self.is_over():
            await _Suspension()


class _Suspension:
    def __await__(self) -> Generator[None]:
        yield


class _OfThread(Wait):
    """Of a thread. The test's own thread moves the clock; the others wait until it has moved."""

    def __init__(self, timeline: Timeline, *, moves_clock: bool) -> None:
        super().__init__(timeline)
        self._moves_clock = moves_clock
        self._woken = threading.Event()

    def wake(self) -> None:
        self._woken.set()

    async def sleep(self, *, endless: bool) -> None:
        self.timeline.settle()
        if self._moves_clock:
            self.timeline.pass_until_over(self, endless=endless)
        else:
            self._woken.wait()


class _OfTask(Wait):
    """Of an asyncio task. The test's own task moves the clock, when no other task can go on."""

    def __init__(self, timeline: Timeline, *, moves_clock: bool) -> None:
        super().__init__(timeline)
        self._moves_clock = moves_clock
        self._loop = asyncio.get_running_loop()
        self._woken = asyncio.Event()

    def wake(self) -> None:
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._woken.set)

    async def sleep(self, *, endless: bool) -> None:
        steps = 0
        while self._moves_clock and not self.is_over():
            for _ in range(_TURNS):
                self.timeline.settle()
                await asyncio.sleep(0)
                if self.is_over():
                    return
            self.timeline.pass_on(steps, endless=endless)
            steps += 1
        self.timeline.settle()
        await self._woken.wait()


class ClockedIO(IO):
    """What both have in common."""

    timeline: Timeline

    @abstractmethod
    def new_wait(self) -> Wait:
        """A wait of the thread or task that asks."""

    def event(self) -> Event:
        return _Event(self)

    def spawn(self, coroutine: Coroutine[Any, Any, None], name: str) -> Task:
        return BackgroundTask(self.timeline, coroutine)


class ClockedBlockingIO(ClockedIO, BlockingIO):
    """For a testing client in a blocking program."""

    def __init__(self, timeline: Timeline) -> None:
        super().__init__()
        self.timeline = timeline
        self._own_thread = threading.current_thread()
        # `BlockingIO` has attributes in place of these two methods.
        self.now = timeline.now  # type: ignore[method-assign]
        self.caller = self._caller  # type: ignore[method-assign]

    def new_wait(self) -> Wait:
        return _OfThread(self.timeline, moves_clock=threading.current_thread() is self._own_thread)

    def _caller(self) -> object:
        return played.get() or threading.current_thread()


class ClockedAsyncioIO(ClockedIO, AsyncioIO):
    """For a testing client in an asyncio program."""

    def __init__(self, timeline: Timeline) -> None:
        super().__init__()
        self.timeline = timeline
        self._own_task: asyncio.Task[Any] | None = None
        self.now = timeline.now  # type: ignore[method-assign]

    def new_wait(self) -> Wait:
        return _OfTask(self.timeline, moves_clock=asyncio.current_task() is self._own_task)

    def caller(self) -> object:
        if self._own_task is None or self._own_task.done():
            # The first task that asks is the test's. Fixtures may have had tasks of their own before.
            self._own_task = asyncio.current_task()
        return played.get() or super().caller()
