"""portalocker: no lease, no fence, no queue. It polls every 250 ms. The URL is sqlite:///…"""

from __future__ import annotations

from typing import Any

from benchmarks.adapters.contract import Turns
from benchmarks.adapters.limits.flock import path_beside


class Portalocker(Turns):
    """One lock object for all turns. By default it gives up after five seconds."""

    label = "portalocker"

    def __init__(self, url: str, name: str, seat: int = 0, seats: int = 1) -> None:
        import portalocker

        self._lock: Any = portalocker.Lock(path_beside(url, f"{name}.portalocker"), timeout=600)

    def acquire(self) -> None:
        self._lock.acquire()

    def release(self) -> None:
        self._lock.release()
