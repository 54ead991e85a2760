"""Waiting for conditions: a test doesn't sleep and hope, it says what it waits for."""

import asyncio
import inspect
import time
from collections.abc import Callable
from typing import Any, TypeVar

T = TypeVar("T")

POLL_SECONDS = 0.005


def eventually(condition: Callable[[], T], what: str, timeout: float = 10.0) -> T:
    """Poll until the condition is true and return its value, or fail and name what never came."""
    deadline = time.monotonic() + timeout
    while not (value := condition()):
        if time.monotonic() > deadline:
            raise AssertionError(f"waited {timeout:g} s in vain for {what}")
        time.sleep(POLL_SECONDS)
    return value


async def soon(condition: Callable[[], Any], what: str, timeout: float = 10.0) -> Any:
    """As `eventually`, for tests that run in an event loop; the condition may be a coroutine."""
    deadline = time.monotonic() + timeout
    while True:
        value = condition()
        if inspect.isawaitable(value):
            value = await value
        if value:
            return value
        if time.monotonic() > deadline:
            raise AssertionError(f"waited {timeout:g} s in vain for {what}")
        await asyncio.sleep(POLL_SECONDS)
