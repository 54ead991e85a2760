"""`on_lost="cancel"`. A file of its own, because asyncio is slow to import."""

from __future__ import annotations

import asyncio


class Canceller:
    """Cancels the task whose lease is lost, once, and takes its cancellation back at the end of the block."""

    def __init__(self) -> None:
        task = asyncio.current_task()
        assert task is not None, "async with runs in a task"
        self._task = task
        self._before = task.cancelling()
        self._armed = True
        self._fired = False

    def __call__(self) -> None:
        if asyncio.current_task() is self._task:
            # It has noticed the loss itself, so most likely LeaseLost ends the block right now.
            asyncio.get_running_loop().call_soon(self._fire)
        else:
            self._fire()

    def _fire(self) -> None:
        if self._armed:
            self._armed = False
            self._fired = True
            self._task.cancel()

    def caused(self, error: BaseException | None) -> bool:
        """Whether the error that ends the block is this cancellation and no other. Stops cancelling."""
        self._armed = False
        if not self._fired:
            return False
        self._fired = False
        left = self._task.uncancel()
        return isinstance(error, asyncio.CancelledError) and left <= self._before
