"""Waiting for conditions: a test doesn't sleep and hope, it says what it waits for."""

import asyncio
import inspect
import time
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

T = TypeVar("T")

PATIENCE = 60.0
"""Seconds after which a test gives up. Only a broken program takes as long, or a machine that stalls; three
ZooKeepers on a busy one may need a third of it to elect a leader while the old one is frozen."""


class InVain(AssertionError):
    """The test gave up waiting. It may be the machine: see unsteady.py."""


def _pauses(timeout: float, what: str) -> Iterator[float]:
    """How long to pause between two looks: short at first, for most things come at once."""
    deadline = time.monotonic() + timeout
    pause = 0.002
    while time.monotonic() < deadline:
        yield pause
        pause = min(1.3 * pause, 0.05)
    raise InVain(f"waited {timeout:g} s in vain for {what}")


def eventually(condition: Callable[[], T], what: str, timeout: float = PATIENCE) -> T:
    """Poll until the condition is true and return its value, or fail and name what never came."""
    pauses = _pauses(timeout, what)
    while not (value := condition()):
        time.sleep(next(pauses))
    return value


async def soon(condition: Callable[[], Any], what: str, timeout: float = PATIENCE) -> Any:
    """As `eventually`, for tests that run in an event loop; the condition may be a coroutine."""
    pauses = _pauses(timeout, what)
    while True:
        value = condition()
        if inspect.isawaitable(value):
            value = await value
        if value:
            return value
        await asyncio.sleep(next(pauses))


async def within(task: asyncio.Task[T]) -> T:
    """What a task brings, which must not take for ever."""
    return await asyncio.wait_for(task, PATIENCE)
