"""A bare socket to Redis, for the limits on Redis."""

from __future__ import annotations

import socket
from urllib.parse import urlsplit

COMPARE_AND_DELETE = """
if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0
"""


def pack(*words: str | int) -> bytes:
    """One command in the protocol of Redis."""
    encoded = [str(word).encode() for word in words]
    parts = [b"$%d\r\n%s\r\n" % (len(word), word) for word in encoded]
    return b"*%d\r\n%s" % (len(parts), b"".join(parts))


def address_of(url: str) -> tuple[str, int]:
    parts = urlsplit(url)
    return str(parts.hostname), int(parts.port or 6379)


class RawConnection:
    """A socket. The caller knows the size of every answer in advance."""

    def __init__(self, url: str) -> None:
        self.socket = socket.create_connection(address_of(url))
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
        """Load a script, and return the hash with which it is called."""
        return self.ask(pack("SCRIPT", "LOAD", script), 47)[5:45].decode()

    def close(self) -> None:
        self.socket.close()
