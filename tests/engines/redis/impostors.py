"""Servers that are not what a Redis URL promises."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Self

from tests.servers import HOST

HELLO = b"%%2\r\n$6\r\nserver\r\n$5\r\nredis\r\n$7\r\nversion\r\n$%d\r\n%b\r\n"

Answer = Callable[[bytes], bytes]


def silence(_: bytes) -> bytes:
    """Accept everything, say nothing."""
    return b""


def web_server(_: bytes) -> bytes:
    return b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n"


def old_redis(_: bytes) -> bytes:
    """The welcome of a Redis that can't run our scripts, and that it does not know them."""
    return HELLO % (6, b"6.2.14") + b"-ERR Error compiling script\r\n" * 9


def stale_sentinel(port: int) -> Answer:
    """A Sentinel that has not heard of the last failover and names a port without a server."""
    host, number = HOST.encode(), str(port).encode()
    address = b"*2\r\n$%d\r\n%b\r\n$%d\r\n%b\r\n" % (len(host), host, len(number), number)

    def answer(heard: bytes) -> bytes:
        welcome = HELLO % (5, b"7.0.0") if b"HELLO" in heard else b""
        return welcome + (address if b"GET-MASTER-ADDR-BY-NAME" in heard else b"")

    return answer


class Impostor:
    """Listens on a port, greets, and answers whatever it hears in its own way."""

    def __init__(self, answer: Answer, greeting: bytes = b"") -> None:
        self._answer = answer
        self._greeting = greeting
        self._listener = socket.create_server((HOST, 0))
        self._accepted: list[socket.socket] = []
        self.port = self._listener.getsockname()[1]
        self._thread = threading.Thread(target=self._accept, daemon=True)

    @property
    def url(self) -> str:
        return f"redis://{HOST}:{self.port}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        _hang_up(self._listener)
        self._thread.join()  # so that it accepts no more connections
        for end in self._accepted:
            _hang_up(end)

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                self._accepted.append(client)
                threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        with suppress(OSError):
            client.sendall(self._greeting)
            while heard := client.recv(65_536):
                client.sendall(self._answer(heard))


def _hang_up(end: socket.socket) -> None:
    with suppress(OSError):
        end.shutdown(socket.SHUT_RDWR)
    end.close()
