"""The clock of a testing client, and the background work that runs when the clock moves."""

from __future__ import annotations

import math
import threading
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Coroutine
from typing import Any

from fencelock.core.durations import Duration, check_positive

_START = 1_000_000.0
"""The first moment; not 0, so that no code gets away with treating 0 as "never"."""

HOPELESS = 10_000
"""Steps of the clock after which a wait without a timeout is given up, in the test's own thread or task."""

ENDLESS = (
    "while a test waits in its own thread or task, nothing but the clock moves. Give a timeout, or let "
    "another thread or task wait"
)


class Wait(ABC):
    """One wait of a background task, a thread or an asyncio task: for an event, a moment, or both."""

    def __init__(self, timeline: Timeline) -> None:
        self.timeline = timeline
        self._over = False
        self.happened = False
        """Whether the event ended it. If not, its moment came."""

    def is_over(self) -> bool:
        """Whether the event or the moment has come."""
        return self._over

    def end(self, happened: bool) -> None:
        """Wake the waiter. Only the first call counts. Takes no mutex, because finalizers call it."""
        if not self._over:
            self._over, self.happened = True, happened
            self.timeline.forget(self)
            self.wake()

    @abstractmethod
    def wake(self) -> None:
        """Let the waiter go on."""

    @abstractmethod
    async def sleep(self, *, endless: bool) -> None:
        """Wait until it is over. `endless`: no moment ends it."""


class BackgroundTask:
    """A coroutine in the background. It runs, step by step, in the thread that moves the clock."""

    def __init__(self, timeline: Timeline, coroutine: Coroutine[Any, Any, None]) -> None:
        self.done = False
        self._timeline = timeline
        self._coroutine = coroutine
        _unstarted.add(self)
        timeline.ready.append(self)

    def step(self) -> None:
        """Run it until it waits. What fails here fails the test that moves the clock."""
        _unstarted.discard(self)
        if self.done:
            return
        try:
            self._coroutine.send(None)
        except StopIteration:
            self.done = True
        except BaseException:
            self.done = True
            raise

    async def join(self) -> None:
        """Run the background until this task has ended."""
        self._timeline.settle()


_unstarted: set[BackgroundTask] = set()
"""Keeps tasks until their first step: Python warns of a coroutine that is deleted before it began."""


class Clock:
    """The clock of a testing client. It stands still until the test moves it."""

    def __init__(self, timeline: Timeline) -> None:
        self._timeline = timeline

    def now(self) -> float:
        """The current time in seconds, from an arbitrary moment on."""
        return self._timeline.now()

    def advance(self, time: Duration) -> None:
        """Let so many seconds pass. All that would happen in that time happens now, in its order: leases are
        renewed or expire, waiters time out. Threads and asyncio tasks that this wakes go on by themselves."""
        self._timeline.advance(check_positive("the time to advance", time))


class Timeline:
    """The time of a testing client, and what waits for its moments.

    The background work of the client (renewing its leases, cleaning up) has no thread and no task of its own.
    It is done when the clock moves, and before each request.
    """

    def __init__(self) -> None:
        self.ready: deque[BackgroundTask] = deque()
        """Background tasks that can go on."""
        self.running: BackgroundTask | None = None
        self._now = _START
        # A dict changes in one step, so no thread needs a mutex for it, and no finalizer.
        self._timers: dict[Wait, float] = {}
        self._stepping = threading.Lock()
        self._thread: int | None = None
        """The thread in which the background runs at this moment."""

    def now(self) -> float:
        """The current time."""
        return self._now

    def advance(self, seconds: float) -> None:
        """Move on, through all moments for which something waits."""
        if self.task is not None:
            raise RuntimeError("the clock is moving: a callback that it calls can't advance it too")
        until = self._now + seconds
        self.settle()
        while self.step(until):
            self.settle()
        self._now = max(self._now, until)
        while self.step(until):  # of a thread that began to wait just now
            self.settle()

    @property
    def task(self) -> BackgroundTask | None:
        """The background task that runs in this thread now."""
        return self.running if self._thread == threading.get_ident() else None

    def at(self, moment: float, wait: Wait) -> None:
        """End this wait at a moment."""
        if moment < math.inf:
            self._timers[wait] = moment
            if moment <= self._now:
                wait.end(False)

    def forget(self, wait: Wait) -> None:
        """No moment ends this wait any more."""
        self._timers.pop(wait, None)

    def step(self, until: float = math.inf) -> bool:
        """Move to the next moment at which a wait ends. False if there is none until then."""
        wait, moment = min(
            self._timers.copy().items(), key=lambda timer: timer[1], default=(None, math.inf)
        )
        if wait is None or moment > until:
            return False
        self._now = max(self._now, moment)
        wait.end(False)
        return True

    def settle(self) -> None:
        """Run the background until all of its tasks wait."""
        # If another thread does it now, it goes on until nothing is ready.
        while self.ready and self._stepping.acquire(blocking=False):
            try:
                self._thread = threading.get_ident()
                while self.ready:
                    self.running = self.ready.popleft()
                    self.running.step()
            finally:
                self.running = self._thread = None
                self._stepping.release()

    def pass_until_over(self, wait: Wait, *, endless: bool) -> None:
        """Move on and on, until this wait is over."""
        steps = 0
        while not wait.is_over():
            self.settle()
            if not wait.is_over():
                self.pass_on(steps, endless=endless)
                steps += 1

    def pass_on(self, steps: int, *, endless: bool) -> None:
        """Move to the next moment, after so many `steps`. Raise if that is hopeless."""
        if not self.step() or (endless and steps >= HOPELESS):
            raise AssertionError(f"this wait would never end: {ENDLESS}")
