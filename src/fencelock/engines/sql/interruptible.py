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
        self.descriptor = descriptor
        self._pair: tuple[socket.socket, socket.socket] | None = None
        """Two ends: to write to the second interrupts the wait. Made for the first wait."""
        # The system gives the number of a closed descriptor to the next one that is opened.
        self._mutex = threading.Lock()

    def wait(self, timeout: float) -> bool:
        """Returns True if there is something to read, False if interrupted or after `timeout` seconds."""
        inside, outside = self._pair or socket.socketpair()
        if self._pair is None:
            inside.setblocking(False)
            outside.setblocking(False)
            self._pair = inside, outside
        poll = input_poll(self.descriptor)
        poll.register(inside, select.POLLIN)
        ready = [descriptor for descriptor, _ in poll.poll(max(0.0, timeout) * 1000)]
        if inside.fileno() in ready:
            inside.recv(64)
        return self.descriptor in ready

    def interrupt(self) -> None:
        """End the wait, or the next one after the first. From any thread; never blocks."""
        with self._mutex:
            if self._pair is not None:
                with suppress(BlockingIOError):  # many interruptions that nobody has read yet
                    self._pair[1].send(b"!")

    def close(self) -> None:
        with self._mutex:
            for end in self._pair or ():
                end.close()
            self._pair = None


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
