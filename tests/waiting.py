"""Wait for conditions: a test says what it waits for, instead of sleeping and hoping."""

import asyncio
import inspect
import time
from collections.abc import Callable
from typing import Any, TypeVar

T = TypeVar("T")

PATIENCE = 60.0
"""Longest wait of a test, in seconds. Only a broken program or a stalled machine takes that long. On a busy
machine, three ZooKeepers may need a third of it to elect a leader while the old leader is frozen."""


class InVain(AssertionError):
    """The test waited too long. The machine may have been busy: see unsteady.py."""


RESPITE = 3
"""The pause after a look, as a multiple of the time that the look took. A look can be work for a server."""


class _Pauses:
    """The pauses between two looks: short at first, because most conditions become true at once."""

    def __init__(self, timeout: float, what: str) -> None:
        self._what = what
        self._timeout = timeout
        self._began = self._looked = time.monotonic()
        self._pause = 0.002

    def next(self) -> float:
        now = time.monotonic()
        if now >= self._began + self._timeout:
            raise InVain(f"waited {self._timeout:g} s in vain for {self._what}")
        pause = max(self._pause, min(RESPITE * (now - self._looked), 0.5))
        self._pause = min(1.3 * self._pause, 0.05)
        self._looked = now + pause
        return pause


def eventually(condition: Callable[[], T], what: str, timeout: float = PATIENCE) -> T:
    """Poll until the condition is true, and return its value. Fails with what it waited for."""
    pauses = _Pauses(timeout, what)
    while not (value := condition()):
        time.sleep(pauses.next())
    return value


async def soon(condition: Callable[[], Any], what: str, timeout: float = PATIENCE) -> Any:
    """As `eventually`, for tests that run in an event loop; the condition may be a coroutine."""
    pauses = _Pauses(timeout, what)
    while True:
        value = condition()
        if inspect.isawaitable(value):
            value = await value
        if value:
            return value
        await asyncio.sleep(pauses.next())


async def within(task: asyncio.Task[T]) -> T:
    """Return the result of a task, which must not take for ever."""
    return await asyncio.wait_for(task, PATIENCE)
