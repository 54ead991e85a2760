"""The limits on Redis: the least work that does the job, by hand, with no safety at all."""

from __future__ import annotations

import asyncio
import socket
from typing import Self
from urllib.parse import urlsplit

from benchmarks.adapters.contract import AsyncTurns, Turns

COMPARE_AND_DELETE = """
if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0
"""
_PING = b"*1\r\n$4\r\nPING\r\n"
PUBLISH = "return redis.call('publish', KEYS[1], ARGV[1])"


def pack(*words: str | int) -> bytes:
    """One command as Redis wants it."""
    encoded = [str(word).encode() for word in words]
    parts = [b"$%d\r\n%s\r\n" % (len(word), word) for word in encoded]
    return b"*%d\r\n%s" % (len(parts), b"".join(parts))


def _address(url: str) -> tuple[str, int]:
    parts = urlsplit(url)
    return str(parts.hostname), int(parts.port or 6379)


class RawConnection:
    """A socket on which the size of every answer is known beforehand."""

    def __init__(self, url: str) -> None:
        self.socket = socket.create_connection(_address(url))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def ask(self, request: bytes, size: int) -> bytes:
        self.socket.sendall(request)
        return self.read(size)

    def read(self, size: int) -> bytes:
        answer = self.socket.recv(65536)
        while len(answer) < size:
            answer += self.socket.recv(65536)
        assert len(answer) == size, answer
        return answer

    def load(self, script: str) -> str:
        """The hash by which a script can be called."""
        return self.ask(pack("SCRIPT", "LOAD", script), 47)[5:45].decode()


class RawPair(Turns):
    """SET NX PX, then compare and delete: two round trips on a socket."""

    label = "limit: raw socket"

    def __init__(self, url: str, name: str, seat: int = 0, seats: int = 1) -> None:
        self._connection = RawConnection(url)
        self._set = pack("SET", name, "me", "NX", "PX", 30_000)
        sha = self._connection.load(COMPARE_AND_DELETE)
        self._delete = pack("EVALSHA", sha, 1, name, "me")

    def acquire(self) -> None:
        assert self._connection.ask(self._set, 5) == b"+OK\r\n"

    def release(self) -> None:
        assert self._connection.ask(self._delete, 4) == b":1\r\n"

    def close(self) -> None:
        self._connection.socket.close()


class Token(Turns):
    """A token in a list: BLPOP takes it, RPUSH gives it to whoever has waited longest."""

    label = "limit: BLPOP/RPUSH token"

    def __init__(self, url: str, name: str, seat: int = 0, seats: int = 1) -> None:
        self._connection = RawConnection(url)
        self._pop = pack("BLPOP", name, 0)
        self._popped = len(pack(name, "t"))  # the answer is an array just like a request
        self._push = pack("RPUSH", name, "t")

    def acquire(self) -> None:
        self._connection.ask(self._pop, self._popped)

    def release(self) -> None:
        self._connection.ask(self._push, 4)

    def close(self) -> None:
        self._connection.socket.close()

    @classmethod
    def kick_off(cls, url: str, name: str) -> None:
        connection = RawConnection(url)
        connection.ask(pack("DEL", name), 4)
        connection.ask(pack("RPUSH", name, "t"), 4)
        connection.socket.close()


class Ring(Turns):
    """A message is pushed to the next in a ring: not a lock, but what a hand-off is made of."""

    label = "limit: one push"

    def __init__(self, url: str, name: str, seat: int = 0, seats: int = 1) -> None:
        self._asking, self._listening = RawConnection(url), RawConnection(url)
        sha = self._asking.load(PUBLISH)
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
        self._asking.socket.close()
        self._listening.socket.close()

    @classmethod
    def kick_off(cls, url: str, name: str) -> None:
        connection = RawConnection(url)
        connection.ask(pack("PUBLISH", _channel(name, 0), "t"), 4)
        connection.socket.close()


def _channel(name: str, seat: int) -> str:
    return f"{name}:{seat}"


class RingAfterRoundTrip(Ring):
    """First a bare round trip, then the push: what a lock that needs two requests could do at best."""

    label = "limit: one round trip, one push"

    def release(self) -> None:
        self._asking.ask(_PING, 7)
        super().release()


class RawBatches:
    """Many names at once: all SETs in one write, all deletes in another."""

    label = "limit: raw socket, two batches"

    def __init__(self, url: str, names: list[str]) -> None:
        self._connection = RawConnection(url)
        sha = self._connection.load(COMPARE_AND_DELETE)
        self._count = len(names)
        self._sets = b"".join(pack("SET", name, "me", "NX", "PX", 30_000) for name in names)
        self._deletes = b"".join(pack("EVALSHA", sha, 1, name, "me") for name in names)

    def run(self) -> None:
        self._connection.ask(self._sets, 5 * self._count)
        self._connection.ask(self._deletes, 4 * self._count)

    def close(self) -> None:
        self._connection.socket.close()


class _Answers(asyncio.BufferedProtocol):
    def __init__(self) -> None:
        self._buffer = bytearray(4096)
        self.answer: asyncio.Future[bytes]

    def get_buffer(self, sizehint: int) -> bytearray:
        return self._buffer

    def buffer_updated(self, size: int) -> None:
        self.answer.set_result(bytes(self._buffer[:size]))


class AsyncRawPair(AsyncTurns):
    """The two round trips of `RawPair` on a bare asyncio protocol."""

    label = "limit: raw asyncio protocol"

    def __init__(
        self, transport: asyncio.Transport, answers: _Answers, name: str, sha: str
    ) -> None:
        self._transport = transport
        self._answers = answers
        self._loop = asyncio.get_running_loop()
        self._set = pack("SET", name, "me", "NX", "PX", 30_000)
        self._delete = pack("EVALSHA", sha, 1, name, "me")

    @classmethod
    async def connect(cls, url: str, name: str) -> Self:
        loading = RawConnection(url)
        sha = loading.load(COMPARE_AND_DELETE)
        loading.socket.close()
        loop = asyncio.get_running_loop()
        transport, answers = await loop.create_connection(_Answers, *_address(url))
        return cls(transport, answers, name, sha)

    async def acquire(self) -> None:
        assert await self.ask_to_set() == b"+OK\r\n"

    async def release(self) -> None:
        assert await self.ask_to_delete() == b":1\r\n"

    def ask_to_set(self) -> asyncio.Future[bytes]:
        return self._ask(self._set)

    def ask_to_delete(self) -> asyncio.Future[bytes]:
        return self._ask(self._delete)

    async def close(self) -> None:
        self._transport.close()

    def _ask(self, request: bytes) -> asyncio.Future[bytes]:
        answer = self._answers.answer = self._loop.create_future()
        self._transport.write(request)
        return answer
