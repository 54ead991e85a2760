"""The kernel's own lock on a file, blocking. The URL is sqlite:///…"""

from __future__ import annotations

import fcntl
import os

from benchmarks.adapters.contract import Turns


def path_beside(url: str, suffix: str) -> str:
    """A file next to our database."""
    return f"{url.removeprefix('sqlite:///')}.{suffix}"


class Flock(Turns):
    """No lease, no fence, nothing to inspect."""

    label = "limit: flock"

    def __init__(self, url: str, name: str, seat: int = 0, seats: int = 1) -> None:
        path = path_beside(url, f"{name}.flock")
        self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC)

    def acquire(self) -> None:
        fcntl.flock(self._fd, fcntl.LOCK_EX)

    def release(self) -> None:
        fcntl.flock(self._fd, fcntl.LOCK_UN)

    def close(self) -> None:
        os.close(self._fd)
