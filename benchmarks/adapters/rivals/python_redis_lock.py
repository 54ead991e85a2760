"""python-redis-lock: waiters sleep in BLPOP, but a newcomer may take the lock first. No fence."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from benchmarks.adapters.contract import Keeper, Turns


class PythonRedisLock(Turns):
    """One Lock object for all turns, without renewal: renewal would start a thread in each turn."""

    label = "python-redis-lock"

    def __init__(self, url: str, name: str, seat: int = 0, seats: int = 1) -> None:
        import redis
        import redis_lock

        # A BLPOP lasts as long as the ttl, so the timeout of the socket must be longer.
        self._client = redis.Redis.from_url(url, socket_timeout=None)
        self._lock: Any = redis_lock.Lock(self._client, name, expire=self.ttl)

    def warm_up(self) -> None:
        self._client.ping()

    def acquire(self) -> None:
        assert self._lock.acquire()

    def release(self) -> None:
        self._lock.release()

    def close(self) -> None:
        self._client.close()


class PythonRedisLockKeeper(Keeper):
    """One thread per lock."""

    label = "python-redis-lock"

    def __init__(self, url: str, ttl: int) -> None:
        import redis

        self._client = redis.Redis.from_url(url)
        self._witness = redis.Redis.from_url(url)  # the threads may use up the other pool
        self._ttl = ttl
        self._locks: dict[str, Any] = {}

    def hold(self, names: Sequence[str]) -> None:
        import redis_lock

        for name in names:
            lock = redis_lock.Lock(self._client, name, expire=self._ttl, auto_renewal=True)
            assert lock.acquire()
            self._locks[name] = lock

    def lost(self) -> int:
        return sum(
            self._witness.get(f"lock:{name}") != lock.id.encode()
            for name, lock in self._locks.items()
        )
