"""A token in a list: BLPOP takes it, RPUSH gives it to the longest waiter."""

from __future__ import annotations

from benchmarks.adapters.contract import Turns
from benchmarks.adapters.limits.redis_wire import RawConnection, pack


class Token(Turns):
    """Fair, and as fast as possible. But if the holder dies, the token is lost."""

    label = "limit: BLPOP/RPUSH token"

    def __init__(self, url: str, name: str, seat: int = 0, seats: int = 1) -> None:
        self._connection = RawConnection(url)
        self._pop = pack("BLPOP", name, 0)
        self._popped = len(pack(name, "t"))  # the answer is an array, like a request
        self._push = pack("RPUSH", name, "t")

    def acquire(self) -> None:
        self._connection.ask(self._pop, self._popped)

    def release(self) -> None:
        self._connection.ask(self._push, 4)

    def close(self) -> None:
        self._connection.close()

    @classmethod
    def kick_off(cls, url: str, name: str) -> None:
        connection = RawConnection(url)
        connection.ask(pack("RPUSH", name, "t"), 4)
        connection.close()
