"""Waiting for conditions: a test doesn't sleep and hope, it says what it waits for."""

import asyncio
import inspect
import time
from collections.abc import Callable
from typing import Any, TypeVar

T = TypeVar("T")

PATIENCE = 60.0
"""Seconds after which a test gives up. Only a broken program takes as long, or a machine that stalls; three
ZooKeepers on a busy one may need a third of it to elect a leader while the old one is frozen."""


class InVain(AssertionError):
    """The test gave up waiting. It may be the machine: see unsteady.py."""


RESPITE = 3
"""How many times as long as a look has taken the next one is waited for: some are work for a server, too."""


class _Pauses:
    """How long to pause between two looks: short at first, for most things come at once."""

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
    """Poll until the condition is true and return its value, or fail and name what never came."""
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
    """What a task brings, which must not take for ever."""
    return await asyncio.wait_for(task, PATIENCE)
