"""A reply for which one task waits, and with which it goes on at once."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator
from contextvars import Context
from typing import Any, Generic, TypeVar

T = TypeVar("T")


class Reply(Generic[T]):
    """What a task may await instead of an `asyncio.Future`.

    A future has its task go on in the next turn of the loop: one more question to the system whether anything
    has arrived, and half a dozen calls. Whoever reads from a socket is nobody's task, so the task that waits
    for what was read may go on within that very call.
    """

    __slots__ = (
        "_asyncio_future_blocking",
        "_context",
        "_error",
        "_loop",
        "_task",
        "_value",
        "done",
    )

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._asyncio_future_blocking = False  # how a task knows that this can be waited for
        self._task: Callable[[Any], object] | None = None
        self._error: BaseException | None = None
        self.done = False

    def __await__(self) -> Generator[Any, None, T]:
        if not self.done:
            self._asyncio_future_blocking = True
            yield self
        return self.result()

    def arrive(self, value: T) -> None:
        """It is there, unless it was before, and the task goes on now. For whom the event loop calls: where a
        task is running, no other can."""
        if not self.done:
            self._value = value
            self.done = True
            if self._task is not None:
                self._context.run(self._task, self)

    def arrive_soon(self, value: T) -> None:
        """The same for everybody: the task goes on in the next turn of the loop."""
        if not self.done:
            self._value, self.done = value, True
            self._wake_up()

    def fail(self, error: BaseException) -> None:
        """It will never come; the task hears of it in the next turn of the loop."""
        if not self.done:
            self._error, self.done = error, True
            self._wake_up()

    def _wake_up(self) -> None:
        # It is done by now, for a signal handler may cancel the task in this very moment.
        if self._task is not None:
            self._loop.call_soon(self._task, self, context=self._context)

    # --- what a task asks of whatever it waits for

    def add_done_callback(self, task: Callable[[Any], object], *, context: Context) -> None:
        self._task, self._context = task, context

    def cancel(self, msg: object = None) -> bool:
        if self.done:
            return False
        self.fail(asyncio.CancelledError() if msg is None else asyncio.CancelledError(msg))
        return True

    def result(self) -> T:
        if self._error is not None:
            raise self._error
        return self._value
