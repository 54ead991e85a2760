"""The WebSocket codec: what it sends, what it takes in, and what it refuses."""

from __future__ import annotations

from base64 import b64encode
from hashlib import sha1

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fencelock.engines.http.websocket import (
    CLOSE,
    NO_CODE,
    PING,
    PONG,
    TEXT,
    Handshake,
    Refusal,
    Stream,
    Violation,
    closing,
    frame,
)

LIMIT = 100_000


def served(payload: bytes, opcode: int = TEXT, *, last: bool = True) -> bytes:
    """A frame as a server sends it."""
    first = (0x80 if last else 0) | opcode
    if len(payload) < 126:
        return bytes((first, len(payload))) + payload
    if len(payload) < 65_536:
        return bytes((first, 126)) + len(payload).to_bytes(2, "big") + payload
    return bytes((first, 127)) + len(payload).to_bytes(8, "big") + payload


def unmasked(data: bytes) -> tuple[int, bytes]:
    """The opcode and the payload of one frame of a client."""
    assert data[1] & 0x80, "a client masks what it sends"
    size, start = data[1] & 0x7F, 2
    if size > 125:
        start = 4 if size == 126 else 10
        size = int.from_bytes(data[2:start], "big")
    mask, body = data[start : start + 4], data[start + 4 :]
    assert len(body) == size
    return data[0], bytes(byte ^ mask[i % 4] for i, byte in enumerate(body))


@given(st.binary(max_size=300) | st.sampled_from([b"x" * 65_535, b"y" * 65_536]))
def test_what_is_sent_is_masked_and_whole(payload: bytes) -> None:
    assert unmasked(frame(payload)) == (0x80 | TEXT, payload)


def test_each_frame_has_a_mask_of_its_own() -> None:
    assert len({frame(b"same")[2:6] for _ in range(20)}) > 15


@st.composite
def conversations(draw: st.DrawFn) -> tuple[list[bytes], list[bytes], list[bytes]]:
    """Messages, the pings among them, and the frames in which they arrive."""
    messages, pings, frames = [], [], []
    for _ in range(draw(st.integers(0, 5))):
        parts = draw(st.lists(st.binary(max_size=200), min_size=1, max_size=4))
        messages.append(b"".join(parts))
        for number, part in enumerate(parts):
            last = number == len(parts) - 1
            frames.append(served(part, TEXT if number == 0 else 0, last=last))
            if draw(st.booleans()):
                pings.append(draw(st.binary(max_size=125)))
                frames.append(served(pings[-1], PING))
    return messages, pings, frames


@given(conversations(), st.lists(st.integers(1, 50), max_size=40))
def test_messages_arrive_however_they_are_cut_to_pieces(
    conversation: tuple[list[bytes], list[bytes], list[bytes]], sizes: list[int]
) -> None:
    messages, pings, frames = conversation
    stream, data, received = Stream(LIMIT), b"".join(frames), []
    for size in sizes:
        received += stream.feed(data[:size])
        data = data[size:]
    received += stream.feed(data)
    assert received == messages
    assert [unmasked(one) for one in stream.outbox] == [(0x80 | PONG, ping) for ping in pings]
    assert stream.closed is None


@given(st.binary(max_size=400))
def test_no_bytes_break_it(data: bytes) -> None:
    stream = Stream(LIMIT)
    try:
        for start in range(0, len(data), 7):
            stream.feed(data[start : start + 7])
    except Violation:
        pass


def test_a_long_message_in_many_pieces() -> None:
    stream, message = Stream(LIMIT), b"z" * LIMIT
    data = served(message)
    pieces = [data[start : start + 1000] for start in range(0, len(data), 1000)]
    assert [one for piece in pieces for one in stream.feed(piece)] == [message]


@pytest.mark.parametrize(
    "data",
    [
        served(b"x" * (LIMIT + 1)),
        served(b"x" * 60_000, last=False) + served(b"x" * 60_000, 0),
        b"\x81\x7f" + (2**62).to_bytes(8, "big"),
        frame(b"masked"),
        bytes((0xC1, 1)) + b"x",
        served(b"binary", 2),
        served(b"goes on", 0),
        served(b"one", last=False) + served(b"two"),
        served(b"half a ping", PING, last=False),
        served(b"x" * 126, PING),
        served(b"x", CLOSE),
        served(b"", 0xB),
    ],
    ids=[
        "too long", "too long in all", "far too long", "masked", "extension", "binary", "out of order",
        "two at once", "ping in fragments", "long ping", "half a code", "unknown",
    ],
)  # fmt: skip
def test_what_is_refused(data: bytes) -> None:
    with pytest.raises(Violation):
        Stream(LIMIT).feed(data)


@pytest.mark.parametrize(
    ("payload", "code"), [((1001).to_bytes(2, "big") + b"bye", 1001), (b"", NO_CODE)]
)
def test_a_close_is_answered_and_nothing_follows(payload: bytes, code: int) -> None:
    stream = Stream(LIMIT)
    assert stream.feed(served(b"last") + served(payload, CLOSE) + served(b"more")) == [b"last"]
    assert stream.closed == code
    assert unmasked(b"".join(stream.outbox)) == (0x80 | CLOSE, payload[:2])
    assert stream.feed(served(b"more")) == []
    assert unmasked(closing(1000))[1] == (1000).to_bytes(2, "big")


# --- the handshake


def answer_to(shake: Handshake, status: str = "101 Switching Protocols", **changed: str) -> bytes:
    head = dict(line.split(": ") for line in shake.request.decode().split("\r\n")[1:-2])
    key = head["Sec-WebSocket-Key"].encode() + b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
    headers = {
        "Upgrade": "websocket",
        "Connection": "upgrade",
        "Sec-WebSocket-Accept": b64encode(sha1(key, usedforsecurity=False).digest()).decode(),
        "Sec-WebSocket-Protocol": "p.v1",
        **{name.replace("_", "-"): value for name, value in changed.items()},
    }
    lines = [
        f"HTTP/1.1 {status}",
        *(f"{name}: {value}" for name, value in headers.items() if value),
    ]
    return "\r\n".join([*lines, "", ""]).encode()


def handshake() -> Handshake:
    return Handshake("example.org:7007", "/v1/line", "p.v1", "secret")


def test_a_handshake_byte_by_byte() -> None:
    shake = handshake()
    assert b"Authorization: Bearer secret\r\n" in shake.request
    data = answer_to(shake) + b"rest"
    found = [shake.feed(data[i : i + 1]) for i in range(len(data) - 4)]
    assert found[:-1] == [None] * (len(found) - 1)
    assert found[-1] == b""
    other = handshake()
    assert other.feed(answer_to(other) + b"rest") == b"rest"


@pytest.mark.parametrize(
    "changed",
    [
        {"Sec_WebSocket_Accept": "c29tZWJvZHkgZWxzZSdz"},
        {"Sec_WebSocket_Accept": ""},
        {"Sec_WebSocket_Protocol": "p.v2"},
        {"Sec_WebSocket_Protocol": ""},
        {"Sec_WebSocket_Extensions": "permessage-deflate"},
        {"Upgrade": "h2c"},
    ],
)
def test_an_answer_that_is_not_for_us(changed: dict[str, str]) -> None:
    shake = handshake()
    with pytest.raises(Violation):
        shake.feed(answer_to(shake, **changed))


@pytest.mark.parametrize(
    "data", [b"-ERR unknown command\r\n", b"HTTP/1.1 OK\r\n\r\n", b"H" * 20_000]
)
def test_a_server_that_speaks_something_else(data: bytes) -> None:
    with pytest.raises(Violation):
        handshake().feed(data)


def test_an_answer_without_an_end() -> None:
    with pytest.raises(Violation):
        handshake().feed(b"HTTP/1.1 101 Yes\r\n" + b"x: y\r\n" * 5000)


def test_a_refusal_has_its_body() -> None:
    shake = handshake()
    head = b"HTTP/1.1 401 Unauthorized\r\nContent-Length: 4\r\n\r\n"
    assert shake.feed(head + b"no") is None
    with pytest.raises(Refusal) as caught:
        shake.feed(b"pe")
    assert (caught.value.status, caught.value.body) == (401, b"nope")
