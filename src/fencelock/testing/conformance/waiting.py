"""Wait for conditions: a test says what it waits for, instead of sleeping and hoping."""

import asyncio
import inspect
from collections.abc import Callable
from typing import Any, TypeVar

from fencelock.servers.process import Pauses, wait_until

T = TypeVar("T")

PATIENCE = 60.0
"""Longest wait of a test, in seconds. Only a broken program or a stalled machine takes that long. On a busy
machine, three ZooKeepers may need a third of it to elect a leader while the old leader is frozen."""


class InVain(AssertionError):
    """The test waited too long. The machine may have been busy: see tests/unsteady.py."""


def eventually(condition: Callable[[], T], what: str, timeout: float = PATIENCE) -> T:
    """Poll until the condition is true, and return its value. Fails with what it waited for."""
    return wait_until(condition, Pauses(timeout, what, InVain))


async def soon(condition: Callable[[], Any], what: str, timeout: float = PATIENCE) -> Any:
    """As `eventually`, for tests that run in an event loop; the condition may be a coroutine."""
    pauses = Pauses(timeout, what, InVain)
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
