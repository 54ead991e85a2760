"""What `on_lost="cancel"` does. In a file of its own, because asyncio takes long to import."""

from __future__ import annotations

import asyncio


class Canceller:
    """Cancels the task whose lease is lost, and knows its own cancellation again."""

    def __init__(self) -> None:
        task = asyncio.current_task()
        assert task is not None, "async with runs in a task"
        self._task = task
        self._before = task.cancelling()
        self._fired = False

    def __call__(self) -> None:
        # Once: of several leases more than one may be lost. A task that notices the loss itself gets
        # LeaseLost right there.
        if not self._fired and asyncio.current_task() is not self._task:
            self._fired = True
            self._task.cancel()

    def caused(self, error: BaseException | None) -> bool:
        """Whether the error that ended the body is this cancellation and no other."""
        if not self._fired or not isinstance(error, asyncio.CancelledError):
            return False
        return self._task.uncancel() <= self._before
