"""SET NX PX, then compare and delete: two round trips on a socket."""

from __future__ import annotations

from benchmarks.adapters.contract import TTL_SECONDS, Turns
from benchmarks.adapters.limits.redis_wire import COMPARE_AND_DELETE, RawConnection, pack


class RawPair(Turns):
    """It fails if the lock is taken."""

    label = "limit: raw socket"

    def __init__(self, url: str, name: str, seat: int = 0, seats: int = 1) -> None:
        self._connection = RawConnection(url)
        self._set = pack("SET", name, "me", "NX", "PX", TTL_SECONDS * 1000)
        sha = self._connection.load(COMPARE_AND_DELETE)
        self._delete = pack("EVALSHA", sha, 1, name, "me")

    def acquire(self) -> None:
        assert self._connection.ask(self._set, 5) == b"+OK\r\n"

    def release(self) -> None:
        assert self._connection.ask(self._delete, 4) == b":1\r\n"

    def close(self) -> None:
        self._connection.close()
