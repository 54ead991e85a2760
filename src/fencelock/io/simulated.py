"""The simulated world: a virtual clock and a seeded scheduler. The same seed replays the same run.

A `World` holds many processes, each a `SimulatedIO` of its own with its own clock and its own
tasks. Nothing here waits in real time: when no task can run, the clock jumps to the next timer.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Coroutine, Generator
from contextlib import suppress
from random import Random
from typing import Any, TypeVar, cast

from fencelock.core.durations import DRIFT
from fencelock.core.errors import FencelockError
from fencelock.io.contract import IO, Event

T = TypeVar("T")

START = 1_000_000.0
"""The world's first moment; not 0, so that nobody gets away with treating 0 as "never"."""

_TICK = 20e-6
"""A step takes up to this long, so that two looks at the clock with an await between them differ."""

_LATE = 1e-6
"""Timers are never early: not even by a rounding error, which would make a waiting loop spin."""


class Cancelled(BaseException):
    """Thrown into a task that is cancelled; like asyncio's, not an `Exception`."""


class Livelock(RuntimeError):
    """The step limit was reached: some task spins instead of waiting."""


class _Buried(BaseException):
    """Thrown into tasks that are left over when a world ends, so that they end too."""


class Timer:
    """Something that happens at a moment, unless it is cancelled before."""

    def __init__(self, act: Callable[[], None]) -> None:
        self.act: Callable[[], None] | None = act

    def cancel(self) -> None:
        """Let it not happen."""
        self.act = None


class _Wait:
    """One suspension of one task. Yielded to the scheduler: this is the whole trap protocol."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.task: SimulatedTask | None = None
        self.timer: Timer | None = None
        self.value: Any = None
        self.woken = False

    def __await__(self) -> Generator[_Wait, Any, Any]:
        if self._world.closed:
            raise _Buried
        return (yield self)

    def wake(self, value: Any) -> None:
        if not self.woken:
            self.woken = True
            self.value = value
            if self.timer is not None:
                self.timer.cancel()
            if self.task is not None:
                self.task._enqueue()


class SimulatedTask:
    """A coroutine of one process, run step by step by the world."""

    def __init__(self, io: SimulatedIO, coroutine: Coroutine[Any, Any, Any], name: str) -> None:
        self.io = io
        self.name = name
        self.done = False
        self.result: Any = None
        self.error: BaseException | None = None
        self._coroutine = coroutine
        self._wait: _Wait | None = None
        self._joiners: list[_Wait] = []
        self._queued = False
        self._throw = False
        self._fuse = 0
        self._enqueue()

    async def join(self) -> None:
        """Wait for its end, whatever it is."""
        if not self.done and self is not self.io.world.current:
            wait = _Wait(self.io.world)
            self._joiners.append(wait)
            await wait

    def cancel(self) -> None:
        """Throw `Cancelled` into it, where it waits now."""
        if self.done:
            return
        self._throw = True
        if self._wait is not None and not self._wait.woken:
            self._wait.wake(None)
        else:
            self._enqueue()

    def cancel_at_await(self, count: int) -> None:
        """Cancel it at its `count`-th await from now on."""
        self._fuse = count

    def _enqueue(self) -> None:
        if not self._queued and not self.io.crashed:
            self._queued = True
            (self.io._backlog if self.io.stopped else self.io.world._ready).append(self)

    def _step(self) -> None:
        self._queued = False
        wait, self._wait = self._wait, None
        try:
            if self._throw:
                self._throw = False
                if wait is not None:
                    wait.task = None  # whatever it waited for may still come
                trap = self._coroutine.throw(Cancelled())
            else:
                trap = self._coroutine.send(None if wait is None else wait.value)
        except StopIteration as stop:
            self._finish(stop.value, None)
            return
        except BaseException as error:  # `join` raises it
            self._finish(None, error)
            return
        self._wait = trap
        trap.task = self
        if self._fuse:
            self._fuse -= 1
            if not self._fuse:
                self._throw = True
                trap.wake(None)
        if trap.woken:
            self._enqueue()

    def _finish(self, result: Any, error: BaseException | None) -> None:
        self.done, self.result, self.error = True, result, error
        self.io.tasks.pop(self, None)
        if error is not None and not isinstance(error, Cancelled) and not self._joiners:
            self.io.world.failures.append((self, error))
        for wait in self._joiners:
            wait.wake(None)

    def __repr__(self) -> str:
        return f"<{self.name} of {self.io.name}>"


class World:
    """Virtual time, all processes and the scheduler. Everything random comes from the seed."""

    def __init__(self, seed: int, *, max_steps: int = 200_000) -> None:
        self.random = Random(seed)
        self.time = START
        """True time, in seconds. Processes see their own clocks instead."""
        self.steps = 0
        self.processes: list[SimulatedIO] = []
        self.current: SimulatedTask | None = None
        self.failures: list[tuple[SimulatedTask, BaseException]] = []
        """Tasks that ended with an error which nobody was there to take."""
        self.trace: list[tuple[float, str, str]] = []
        self.after_step: Callable[[SimulatedIO], None] | None = None
        self.closed = False
        self._max_steps = max_steps
        self._ready: list[SimulatedTask] = []
        self._timers: list[tuple[float, int, Timer]] = []
        self._timer_count = 0

    def process(self, name: str, *, rate: float | None = None) -> SimulatedIO:
        """A new process, whose clock runs at `rate`: without one, as wrong as `DRIFT` allows."""
        if rate is None:
            rate = 1 + DRIFT * self.random.choice((-1.0, 1.0, self.random.uniform(-1.0, 1.0)))
        io = SimulatedIO(self, name, rate)
        self.processes.append(io)
        return io

    def at(self, time: float, act: Callable[[], None]) -> Timer:
        """Do something at a moment of true time; outside of any process."""
        timer = Timer(act)
        self._timer_count += 1
        heapq.heappush(self._timers, (time, self._timer_count, timer))
        return timer

    def after(self, seconds: float, act: Callable[[], None]) -> Timer:
        """Do something in a while."""
        return self.at(self.time + seconds, act)

    def log(self, who: str, what: str) -> None:
        """Add a line to the trace."""
        self.trace.append((self.time, who, what))

    def run(self, until: float = math.inf) -> None:
        """Run until nothing is left to do, or until a moment of true time."""
        ready, timers, random = self._ready, self._timers, self.random.random
        while True:
            while timers and timers[0][0] <= self.time:
                act = heapq.heappop(timers)[2].act
                if act is not None:
                    act()
            if ready:
                # Any of them may be next: that choice is what makes one schedule differ from another.
                index = int(random() * len(ready))
                task = ready[index]
                ready[index] = ready[-1]
                ready.pop()
                self._step(task)
                self.time += random() * _TICK
            else:
                while timers and timers[0][2].act is None:
                    heapq.heappop(timers)
                next_time = timers[0][0] if timers else math.inf
                if next_time == math.inf or next_time > until:
                    if until < math.inf:
                        self.time = max(self.time, until)
                    return
                self.time = max(self.time, next_time)

    def _step(self, task: SimulatedTask) -> None:
        self.steps += 1
        if self.steps > self._max_steps:
            raise Livelock(f"no end after {self._max_steps} steps; {task!r} was to run next")
        self.current = task
        try:
            task._step()
        finally:
            self.current = None
        if self.after_step is not None:
            self.after_step(task.io)

    def tail(self, lines: int | None = None) -> list[str]:
        """The last lines of the trace, or all of it, for people."""
        noted = self.trace if lines is None else self.trace[-lines:]
        return [f"{time - START:10.5f}  {who:<8} {what}" for time, who, what in noted]

    def close(self) -> None:
        """End every task that is left, without letting it do anything more."""
        self.closed = True
        for io in self.processes:
            while io.tasks:
                task, _ = io.tasks.popitem()
                with suppress(
                    _Buried, Exception
                ):  # whatever it says now, nobody is there to listen
                    task._coroutine.throw(_Buried())


class _Event:
    def __init__(self, io: SimulatedIO) -> None:
        self._io = io
        self._set = False
        self._waits: list[_Wait] = []

    def set(self) -> None:
        self._set = True
        waits, self._waits = self._waits, []
        for wait in waits:
            wait.wake(True)

    def clear(self) -> None:
        self._set = False

    def is_set(self) -> bool:
        return self._set

    async def wait(self, timeout: float | None = None) -> bool:
        # Yields to the others even when there is nothing to wait for: any await may suspend.
        wait = _Wait(self._io.world)
        if self._set or (timeout is not None and timeout <= 0):
            wait.wake(self._set)
        else:
            if len(self._waits) > 8:
                self._waits = [other for other in self._waits if not other.woken]
            self._waits.append(wait)
            if timeout is not None and timeout < math.inf:
                wait.timer = self._io._after(timeout, lambda: wait.wake(False))
        return bool(await wait)


class SimulatedIO(IO):
    """One process of a world: its clock, its tasks, and what can happen to it."""

    blocking = False

    def __init__(self, world: World, name: str, rate: float) -> None:
        self.world = world
        self.name = name
        self.random = Random(world.random.getrandbits(64))
        self.tasks: dict[SimulatedTask, None] = {}  # a set that keeps its order
        self.stopped = False
        self.crashed = False
        self.rate = rate
        """How fast its clock runs: 1 is right."""
        self._origin = world.time
        self._booted = world.random.uniform(0.0, 100_000.0)
        self._resume: Timer | None = None
        self._resume_at = -math.inf
        self._backlog: list[SimulatedTask] = []

    def now(self) -> float:
        return self._booted + (self.world.time - self._origin) * self.rate

    def event(self) -> Event:
        return _Event(self)

    def spawn(self, coroutine: Coroutine[Any, Any, Any], name: str) -> SimulatedTask:
        if self.world.closed:
            coroutine.close()
            raise _Buried
        task = SimulatedTask(self, coroutine, name)
        self.tasks[task] = None
        return task

    async def sleep(self, seconds: float) -> None:
        """Do nothing for a while of this process's own clock."""
        await _Event(self).wait(seconds)

    async def call(self, function: Callable[..., T], *args: Any) -> T:
        await self.sleep(0)
        return function(*args)

    async def shield(self, coroutine: Coroutine[Any, Any, T]) -> T:
        task = self.spawn(coroutine, "shielded")
        await task.join()
        if task.error is not None:
            raise task.error
        return cast(T, task.result)

    def caller(self) -> object:
        return self.world.current

    def verify(self) -> None:
        if self.world.current is None or self.world.current.io is not self:
            raise FencelockError(f"this client belongs to the simulated process {self.name}")

    async def close(self) -> None:
        """Nothing to give back: `call` needs no thread here."""

    # --- what can happen to a process

    def pause(self, seconds: float) -> None:
        """Stop all its tasks for a while, as SIGSTOP or a long garbage collection does."""
        self._resume_at = max(self._resume_at, self.world.time + seconds)
        if self._resume is not None:
            self._resume.cancel()
        self._resume = self.world.at(self._resume_at, self._continue)
        self.stopped = True
        self._withhold()

    def crash(self) -> None:
        """Kill it: its tasks never run again, not even to clean up."""
        self.crashed = True
        self._withhold()
        self._backlog.clear()

    def _withhold(self) -> None:
        ready = self.world._ready
        self._backlog += [task for task in ready if task.io is self]
        ready[:] = [task for task in ready if task.io is not self]

    def _continue(self) -> None:
        self.stopped = False
        self._resume = None
        backlog, self._backlog = self._backlog, []
        self.world._ready += backlog

    def _after(self, seconds: float, act: Callable[[], None]) -> Timer:
        return self.world.after(seconds / self.rate + _LATE, act)
