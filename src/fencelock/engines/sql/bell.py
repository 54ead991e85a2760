"""A way to wake a thread that waits for a socket."""

from __future__ import annotations

import select
import socket
import threading
from contextlib import suppress


class Bell:
    """Rouses the one who waits for a descriptor, whose own wait has no other end than its deadline."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._inside, self._outside = socket.socketpair()
        self._inside.setblocking(False)
        self._outside.setblocking(False)
        self._mutex = threading.Lock()  # a closed descriptor may be another one's the next moment
        self._open = True
        self._poll = select.poll()
        self._poll.register(descriptor, select.POLLIN)
        self._poll.register(self._inside, select.POLLIN)

    def wait(self, timeout: float) -> bool:
        """Whether there is something to read: before the bell was rung, and before the time was up."""
        ready = [descriptor for descriptor, _ in self._poll.poll(max(0.0, timeout) * 1000)]
        if self._inside.fileno() in ready:
            self._inside.recv(64)
        return self._descriptor in ready

    def ring(self) -> None:
        """From any thread; never blocks."""
        with self._mutex:
            if self._open:
                with suppress(BlockingIOError):  # it has rung often, and nobody has heard it yet
                    self._outside.send(b"!")

    def close(self) -> None:
        with self._mutex:
            self._open = False
            self._inside.close()
            self._outside.close()
