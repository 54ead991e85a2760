"""Each contender pushes a message to the next in a ring: not a lock, but the core of a hand-off."""

from __future__ import annotations

from benchmarks.adapters.contract import Turns
from benchmarks.adapters.limits.redis_wire import RawConnection, pack

_PING = b"*1\r\n$4\r\nPING\r\n"
_PUBLISH = "return redis.call('publish', KEYS[1], ARGV[1])"


class Ring(Turns):
    """One push."""

    label = "limit: one push"

    def __init__(self, url: str, name: str, seat: int = 0, seats: int = 1) -> None:
        self._asking, self._listening = RawConnection(url), RawConnection(url)
        sha = self._asking.load(_PUBLISH)
        self._publish = pack("EVALSHA", sha, 1, _channel(name, (seat + 1) % seats), "t")
        channel = _channel(name, seat)
        # The answer to SUBSCRIBE is an array that ends in a number.
        self._listening.ask(pack("SUBSCRIBE", channel), len(pack("subscribe", channel)) + 4)
        self._message = len(pack("message", channel, "t"))

    def acquire(self) -> None:
        self._listening.read(self._message)

    def release(self) -> None:
        self._asking.ask(self._publish, 4)

    def close(self) -> None:
        self._asking.close()
        self._listening.close()

    @classmethod
    def kick_off(cls, url: str, name: str) -> None:
        connection = RawConnection(url)
        connection.ask(pack("PUBLISH", _channel(name, 0), "t"), 4)
        connection.close()


class RingAfterRoundTrip(Ring):
    """First a bare round trip, then the push: the best that a lock with two requests could do."""

    label = "limit: one round trip, one push"

    def release(self) -> None:
        self._asking.ask(_PING, 7)
        super().release()


def _channel(name: str, seat: int) -> str:
    return f"{name}:{seat}"
