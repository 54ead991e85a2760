"""sherlock on Redis: one script to acquire and one to release. It polls ten times a second. No fence."""

from __future__ import annotations

from typing import Any

from benchmarks.adapters.contract import Turns


class Sherlock(Turns):
    """One lock object for all turns."""

    label = "sherlock"

    def __init__(self, url: str, name: str, seat: int = 0, seats: int = 1) -> None:
        import redis
        import sherlock

        self._client = redis.Redis.from_url(url)
        self._lock: Any = sherlock.RedisLock(
            name, client=self._client, expire=int(self.ttl), timeout=600
        )

    def warm_up(self) -> None:
        self._client.ping()

    def acquire(self) -> None:
        assert self._lock.acquire()

    def release(self) -> None:
        self._lock.release()

    def close(self) -> None:
        self._client.close()
