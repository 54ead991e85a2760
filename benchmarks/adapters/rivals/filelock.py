"""filelock: no lease, no fence, no queue. It polls every 50 ms. The URL is sqlite:///…"""

from __future__ import annotations

from benchmarks.adapters.contract import Turns
from benchmarks.adapters.limits.flock import path_beside


class FileLock(Turns):
    """One lock object for all turns."""

    label = "filelock"

    def __init__(self, url: str, name: str, seat: int = 0, seats: int = 1) -> None:
        import filelock

        self._lock = filelock.FileLock(path_beside(url, f"{name}.filelock"))

    def acquire(self) -> None:
        self._lock.acquire()

    def release(self) -> None:
        self._lock.release()
