"""The client's side of WebSocket (RFC 6455), as far as the lock service needs it. No I/O.

A connection begins with a `Handshake`, which is HTTP. Then a `Stream` takes in what arrives, and `frame`
packs what is sent. Messages are text. There are no extensions, so nothing is compressed.
"""

from __future__ import annotations

import os
from base64 import b64encode
from hashlib import sha1

TEXT, BINARY, CLOSE, PING, PONG = 0x1, 0x2, 0x8, 0x9, 0xA

_FIN = 0x80
_RESERVED = 0x70
_MASKED = 0x80
_WHOLE_TEXT = _FIN | TEXT

_GUID = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
"""What a server joins to our key: so it proves that it knows WebSocket."""

_MAX_HEAD = 16_384
"""The size of the longest answer to a handshake, without its body."""

_MAX_BODY = 65_536
"""How much of a refusal's body is read."""

NO_CODE = 1005
"""Stands for the code of a close without one."""


class Violation(Exception):
    """The other side does not speak WebSocket, or not as agreed. The connection can't be used."""


class Refusal(Exception):
    """The server has answered the handshake with another status than "switching protocols"."""

    def __init__(self, status: int, body: bytes) -> None:
        super().__init__(f"HTTP status {status}")
        self.status = status
        self.body = body


def frame(payload: bytes, opcode: int = TEXT) -> bytes:
    """A whole message, masked, as every frame of a client must be."""
    size = len(payload)
    if size < 126:
        head = bytes((_FIN | opcode, _MASKED | size))
    elif size < 65_536:
        head = bytes((_FIN | opcode, _MASKED | 126)) + size.to_bytes(2, "big")
    else:
        head = bytes((_FIN | opcode, _MASKED | 127)) + size.to_bytes(8, "big")
    mask = os.urandom(4)
    # As one large number each, because a loop over the bytes would take thirty times as long.
    key = int.from_bytes((mask * (size // 4 + 1))[:size], "little")
    return head + mask + (int.from_bytes(payload, "little") ^ key).to_bytes(size, "little")


def closing(code: int) -> bytes:
    """The frame that closes a connection."""
    return frame(code.to_bytes(2, "big"), CLOSE)


class Handshake:
    """The request that turns HTTP into WebSocket, and the check of its answer."""

    def __init__(self, host: str, path: str, protocol: str, token: str | None = None) -> None:
        key = b64encode(os.urandom(16))
        self._accept = b64encode(sha1(key + _GUID, usedforsecurity=False).digest()).decode()
        self._protocol = protocol
        self._received = b""
        lines = [
            f"GET {path} HTTP/1.1",
            f"Host: {host}",
            "Upgrade: websocket",
            "Connection: Upgrade",
            f"Sec-WebSocket-Key: {key.decode()}",
            "Sec-WebSocket-Version: 13",
            f"Sec-WebSocket-Protocol: {protocol}",
        ]
        if token is not None:
            lines.append(f"Authorization: Bearer {token}")
        self.request = "\r\n".join([*lines, "", ""]).encode("ascii")

    def feed(self, data: bytes) -> bytes | None:
        """Take in what arrived. Returns what follows the answer, or None if the answer is not complete.

        Raises `Refusal` if the server refuses, and `Violation` if it does not know what we want.
        """
        self._received += data
        head, separator, rest = self._received.partition(b"\r\n\r\n")
        if not self._received.startswith(b"HTTP/1.1 "[: len(self._received)]):
            raise Violation("it does not speak HTTP")
        if len(head) > _MAX_HEAD:
            raise Violation("its answer is too long")
        if not separator:
            return None
        status, headers = _parsed(head)
        if status != 101:
            expected = headers.get("content-length", "0")
            wanted = min(int(expected), _MAX_BODY) if expected.isdecimal() else 0
            if len(rest) < wanted:
                return None
            raise Refusal(status, rest[:_MAX_BODY])
        self._check(headers)
        return rest

    def _check(self, headers: dict[str, str]) -> None:
        if headers.get("upgrade", "").lower() != "websocket":
            raise Violation("it does not speak WebSocket")
        if headers.get("sec-websocket-accept") != self._accept:
            raise Violation("its answer belongs to another request: a cache is in between")
        if headers.get("sec-websocket-protocol") != self._protocol:
            raise Violation(f"it does not speak {self._protocol}")
        if "sec-websocket-extensions" in headers:
            raise Violation("it wants an extension that nobody asked for")


def _parsed(head: bytes) -> tuple[int, dict[str, str]]:
    """The status and the headers of an answer."""
    first, *lines = head.decode("latin-1").split("\r\n")
    words = first.split(" ", 2)
    if len(words) < 2 or not (words[1].isdecimal() and len(words[1]) == 3):
        raise Violation("it does not speak HTTP")
    headers = {}
    for line in lines:
        name, _, value = line.partition(":")
        headers[name.strip().lower()] = value.strip()
    return int(words[1]), headers


class Stream:
    """Turns what arrives after the handshake into messages.

    `outbox` is what must be sent: the answers to pings, and to a close. `closed` is the code with which the
    server has closed the connection; no message follows.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._rest = b""
        self._parts: list[bytes] = []
        """The fragments of a message that is not complete yet."""
        self._fragmented = False
        self._size = 0
        self.outbox: list[bytes] = []
        self.closed: int | None = None

    def feed(self, data: bytes) -> list[bytes]:
        """Take in what arrived, and return the messages that are complete now. Raises `Violation`."""
        if self.closed is not None:
            return []
        if self._rest:
            data = self._rest + data
        messages: list[bytes] = []
        start, end = 0, len(data)
        while end - start >= 2:
            first, size = data[start], data[start + 1]
            body = start + 2
            if size > 125:
                if size >= _MASKED:
                    raise Violation("a masked frame")
                if first & 0x08:
                    raise Violation("a control frame that is too long")
                body += 2 if size == 126 else 8
                if end < body:
                    break
                size = int.from_bytes(data[start + 2 : body], "big")
                if self._size + size > self._limit:
                    raise Violation("a message that is too long")
            stop = body + size
            if end < stop:
                break
            start = stop
            if first == _WHOLE_TEXT and not self._fragmented:
                messages.append(data[body:stop])
            else:
                self._take(first, data[body:stop], messages)
                if first & 0x0F == CLOSE:
                    break
        self._rest = data[start:]
        return messages

    def _take(self, first: int, payload: bytes, messages: list[bytes]) -> None:
        """Take in a frame that is not a message by itself."""
        opcode, last = first & 0x0F, first & _FIN
        if first & _RESERVED:
            raise Violation("a frame of an extension that nobody asked for")
        if opcode & 0x08:
            if not last:
                raise Violation("a control frame in fragments")
            self._control(opcode, payload)
            return
        if opcode != (0 if self._fragmented else TEXT):
            raise Violation("a frame that is no text, or out of order")
        self._size += len(payload)
        if self._size > self._limit:
            raise Violation("a message that is too long")
        self._parts.append(payload)
        self._fragmented = not last
        if last:
            messages.append(b"".join(self._parts))
            self._parts, self._size = [], 0

    def _control(self, opcode: int, payload: bytes) -> None:
        if opcode == PING:
            self.outbox.append(frame(payload, PONG))
        elif opcode == CLOSE:
            if len(payload) == 1:
                raise Violation("a close with half a code")
            self.closed = int.from_bytes(payload[:2], "big") if payload else NO_CODE
            self.outbox.append(frame(payload[:2], CLOSE))
        elif opcode != PONG:
            raise Violation("a control frame of an unknown kind")
