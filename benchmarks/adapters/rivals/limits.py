"""limits: a list of times per name in Redis. A caller that is refused asks again by itself."""

from __future__ import annotations

from benchmarks.adapters.contract import Turns
from benchmarks.adapters.rates import LIMIT, PER_SECONDS


class LimitsMovingWindow(Turns):
    label = "limits, moving window"

    def __init__(self, url: str, name: str, seat: int = 0, seats: int = 1) -> None:
        from limits import RateLimitItemPerSecond
        from limits.storage import RedisStorage
        from limits.strategies import MovingWindowRateLimiter

        self._name = name
        self._item = RateLimitItemPerSecond(LIMIT, PER_SECONDS)
        self._limiter = MovingWindowRateLimiter(RedisStorage(url))

    def acquire(self) -> None:
        assert self._limiter.hit(self._item, self._name)

    def release(self) -> None: ...
