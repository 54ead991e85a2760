"""What a task awaits instead of an `asyncio.Future`: the task continues in the call that read the reply.

This is the only place that uses asyncio's private protocol of awaitables: the attribute
`_asyncio_future_blocking`, and the methods that a task calls. tests/engines/test_reply.py fails if
asyncio changes it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator
from contextvars import Context
from typing import Any, Generic, TypeVar

T = TypeVar("T")


class Reply(Generic[T]):
    """A value that one task waits for.

    A future lets its task continue in the next turn of the event loop. That costs one more system call and
    half a dozen Python calls. The code that reads from a socket runs in no task, so there the waiting task
    can continue at once.
    """

    __slots__ = (
        "_asyncio_future_blocking", "_context", "_error", "_loop", "_task", "_value", "done",
    )  # fmt: skip

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._asyncio_future_blocking = False  # a task sees by this that it can wait here
        self._task: Callable[[Any], object] | None = None
        self._error: BaseException | None = None
        self.done = False

    def __await__(self) -> Generator[Any, None, T]:
        if not self.done:
            self._asyncio_future_blocking = True
            yield self
        return self.result()

    def arrive(self, value: T) -> None:
        """Set the value, unless it was set before, and run the task now.

        Only for code that the event loop calls directly: while a task runs, no other task can.
        """
        if not self.done:
            self._value = value
            self.done = True
            # A reply may be kept for long. It must not keep the task, whose result may be a lease.
            task, self._task = self._task, None
            if task is not None:
                self._context.run(task, self)

    def arrive_soon(self, value: T) -> None:
        """Set the value, unless it was set before. The task continues in the next turn of the loop."""
        if not self.done:
            self._value, self.done = value, True
            self._wake_up()

    def fail(self, error: BaseException) -> None:
        """Set an error instead. The task continues in the next turn of the loop."""
        if not self.done:
            self._error, self.done = error, True
            self._wake_up()

    def _wake_up(self) -> None:
        # `done` is set before this: a signal handler may cancel the task at this moment.
        task, self._task = self._task, None
        if task is not None:
            self._loop.call_soon(task, self, context=self._context)

    async def within(self, timeout: float, otherwise: T) -> T:
        """Wait for it. After `timeout` seconds it is set to `otherwise`."""
        late = self._loop.call_later(max(timeout, 0.0), self.arrive, otherwise)
        try:
            return await self
        finally:
            late.cancel()

    # --- called by a task

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
