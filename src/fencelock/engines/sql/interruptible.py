"""Waits for a socket, and ways to interrupt them from another thread."""

from __future__ import annotations

import asyncio
import select
import socket
import threading
from contextlib import suppress


class InterruptibleWait:
    """Blocks a thread until a descriptor is readable. Another thread can interrupt it."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._inside, self._outside = socket.socketpair()
        self._inside.setblocking(False)
        self._outside.setblocking(False)
        # The system gives the number of a closed descriptor to the next one that is opened.
        self._mutex = threading.Lock()
        self._open = True
        self._poll = input_poll(descriptor)
        self._poll.register(self._inside, select.POLLIN)

    def wait(self, timeout: float) -> bool:
        """Returns True if there is something to read, False if interrupted or after `timeout` seconds."""
        ready = [descriptor for descriptor, _ in self._poll.poll(max(0.0, timeout) * 1000)]
        if self._inside.fileno() in ready:
            self._inside.recv(64)
        return self._descriptor in ready

    def interrupt(self) -> None:
        """End the wait, or the next one. From any thread; never blocks."""
        with self._mutex:
            if self._open:
                with suppress(BlockingIOError):  # many interruptions that nobody has read yet
                    self._outside.send(b"!")

    def close(self) -> None:
        with self._mutex:
            self._open = False
            self._inside.close()
            self._outside.close()


def input_poll(descriptor: int) -> select.poll:
    """A poll object that tells whether there is something to read."""
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    return poll


def settle(future: asyncio.Future[bool], outcome: bool) -> None:
    """Give a future its result, unless it has one."""
    if not future.done():
        future.set_result(outcome)


def interrupt(future: asyncio.Future[bool] | None) -> None:
    """End a task's wait for this future: its result is False. From any thread; never blocks."""
    if future is not None:
        with suppress(RuntimeError):  # the loop is closed
            future.get_loop().call_soon_threadsafe(settle, future, False)
