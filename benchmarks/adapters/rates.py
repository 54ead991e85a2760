"""Our rate limiter. Nobody releases a permit, so a pair is one acquire."""

from __future__ import annotations

import fencelock
from benchmarks.adapters.contract import Turns

LIMIT, PER_SECONDS = 1_000_000, 3600
"""So many that no contestant ever waits."""


class FencelockRate(Turns):
    label = "Fencelock"

    def __init__(self, url: str, name: str, seat: int = 0, seats: int = 1) -> None:
        self._client = fencelock.Client(url)
        self._rate = self._client.rate(name, LIMIT, PER_SECONDS)
        self._rate.acquire()

    def acquire(self) -> None:
        self._rate.acquire()

    def release(self) -> None: ...

    def close(self) -> None:
        self._client.close()
