"""Sockets for the connection's thread, and what arrives there."""

from __future__ import annotations

import select
import socket
import ssl
from typing import Any

from kazoo.exceptions import ConnectionDropped
from kazoo.handlers.threading import SequentialThreadingHandler
from kazoo.protocol.serialization import int_struct

STEP_TIMEOUT = 2.0
"""Seconds that a server gets to accept a connection, and to finish an answer that it has begun."""

_MAX_REPLY_BYTES = 64 * 2**20


class SocketHandler(SequentialThreadingHandler):  # type: ignore[misc]  # kazoo has no types
    """Calls watchers in the connection's thread, where kazoo would start two more threads."""

    def __init__(self, tls: ssl.SSLContext | None) -> None:
        super().__init__()
        self._tls = tls

    def start(self) -> None:
        pass

    def stop(self) -> None:
        pass

    def dispatch_callback(self, callback: Any) -> None:
        callback.func(*callback.args)

    def select(
        self, reading: list[Any], writing: list[Any], _: Any, timeout: float | None
    ) -> tuple[list[Any], list[Any], list[Any]]:
        if len(reading) + len(writing) == 1 and timeout is not None:  # in the middle of a message
            timeout = min(timeout, STEP_TIMEOUT)
        poll = select.poll()  # kazoo's own makes and closes an epoll each time
        for sock in reading:
            poll.register(sock, select.POLLIN)
        for sock in writing:
            poll.register(sock, select.POLLOUT)
        ready = dict(poll.poll(None if timeout is None else max(0, timeout * 1000)))
        return (
            [sock for sock in reading if sock.fileno() in ready],
            [sock for sock in writing if sock.fileno() in ready],
            [],
        )

    def create_connection(self, address: tuple[str, int], hostname: str, **_: Any) -> socket.socket:
        sock = socket.create_connection(address, STEP_TIMEOUT)
        try:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if self._tls is not None:
                sock = self._tls.wrap_socket(sock, server_hostname=hostname)
        except BaseException:
            sock.close()
            raise
        return sock


def take_message(inbox: bytearray) -> bytes | None:
    """Take the next message, without its length, out of what has arrived; None if not all of it is there."""
    if len(inbox) < 4:
        return None
    end = 4 + check_length(int_struct.unpack_from(inbox)[0])
    if len(inbox) < end:
        return None
    message = bytes(inbox[4:end])
    del inbox[:end]
    return message


def check_length(length: int) -> int:
    """The length of a message, unless ZooKeeper would never send such a one."""
    if not 0 <= length <= _MAX_REPLY_BYTES:
        raise ConnectionDropped("it does not speak ZooKeeper's protocol")
    return length
