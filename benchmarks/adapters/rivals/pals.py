"""pals, on PostgreSQL's advisory locks: no ttl and no fence."""

from __future__ import annotations

from typing import Any

from benchmarks.adapters.contract import Turns


class Pals(Turns):
    """One lock object for all turns, with its pool of connections."""

    label = "pals"

    def __init__(self, url: str, name: str, seat: int = 0, seats: int = 1) -> None:
        import pals

        self._locker: Any = pals.Locker("bench", url)
        self._lock = self._locker.lock(name)

    def warm_up(self) -> None:
        self._locker.engine.connect().close()

    def acquire(self) -> None:
        assert self._lock.acquire()

    def release(self) -> None:
        assert self._lock.release()

    def close(self) -> None:
        self._locker.engine.dispose()
