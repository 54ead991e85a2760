"""pyrate-limiter: a sorted set of times in Redis, by the client's clock. A waiter asks again and again."""

from __future__ import annotations

from benchmarks.adapters.contract import Turns
from benchmarks.adapters.rates import LIMIT, PER_SECONDS


class PyrateLimiter(Turns):
    label = "pyrate-limiter, Redis bucket"

    def __init__(self, url: str, name: str, seat: int = 0, seats: int = 1) -> None:
        import redis
        from pyrate_limiter import Limiter, Rate, RedisBucket

        self._client = redis.Redis.from_url(url)
        self._name = name
        bucket = RedisBucket.init([Rate(LIMIT, PER_SECONDS * 1000)], self._client, name)
        self._limiter = Limiter(bucket)

    def acquire(self) -> None:
        assert self._limiter.try_acquire(self._name)

    def release(self) -> None: ...

    def close(self) -> None:
        self._limiter.close()
        self._client.close()
