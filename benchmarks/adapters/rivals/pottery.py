"""pottery's Redlock: one thread per node. No fence, no renewal. The URL is redlock://…"""

from __future__ import annotations

from typing import Any

from benchmarks.adapters.contract import Turns
from benchmarks.adapters.limits.redlock import nodes_of


class Pottery(Turns):
    """One lock object for all turns. A node may take a second to answer."""

    label = "pottery"

    def __init__(self, url: str, name: str, seat: int = 0, seats: int = 1) -> None:
        import pottery
        import redis

        masters = {
            redis.Redis.from_url(node, socket_timeout=1, socket_connect_timeout=1)
            for node in nodes_of(url)
        }
        self._lock: Any = pottery.Redlock(key=name, masters=masters, auto_release_time=self.ttl)

    def acquire(self) -> None:
        assert self._lock.acquire()

    def release(self) -> None:
        self._lock.release()

    def close(self) -> None:
        for master in self._lock.masters:
            master.close()
