"""Messages between two processes: JSON objects, one in a line, over a socket or a pipe."""

from __future__ import annotations

import contextlib
import json
import os
from typing import Any


class Channel:
    """One end of a connection, by its file descriptor."""

    def __init__(self, fd: int) -> None:
        self.fd = fd
        self._received = b""

    def send(self, **message: Any) -> None:
        """Send a message. If the other process is gone, nothing happens: `receive` will tell."""
        data = json.dumps(message).encode() + b"\n"
        with contextlib.suppress(OSError):
            while data:
                data = data[os.write(self.fd, data) :]

    def receive(self) -> list[dict[str, Any]] | None:
        """Wait for data, and return the messages that are complete; None if the other end was closed."""
        try:
            data = os.read(self.fd, 65536)
        except ConnectionError:
            data = b""
        *lines, self._received = (self._received + data).split(b"\n")
        return [json.loads(line) for line in lines] if data else None

    def close(self) -> None:
        """Close this end."""
        os.close(self.fd)
