"""Every limit is reached, the error is clear, and those inside the limits go on."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import aiohttp
import pytest

from fencelock.engines.http.wire import PATH, SUBPROTOCOL
from tests.effort import effort
from tests.servers_service import Replica
from tests.service.company import (
    Certificates,
    LineClient,
    TlsReplica,
    ask,
    entering,
    is_cut,
    raw,
    serving,
    ticket,
    token_in,
)
from tests.waiting import eventually

LIMITS = {
    "rate": "40",
    "waits-per-principal": "2",
    "waits": "3",
    "leases-per-principal": "4",
    "max-message": "20000",
    "max-name": "20",
    "min-ttl": "1",
    "max-ttl": "1h",
    "max-wait": "1",
}


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("limits") / "tokens.toml"


@pytest.fixture(scope="module")
def replica(file: Path) -> Iterator[Replica]:
    for name in ("size", "lease", "wait", "wait2", "hasty", "calm"):
        TOKENS[name] = token_in(file, name, admin=["*"])
    options = [word for key, value in LIMITS.items() for word in (f"--{key}", value)]
    with serving(file.parent, "--tokens", str(file), *options) as running:
        yield running


TOKENS: dict[str, str] = {}


def test_sizes_and_bounds(replica: Replica) -> None:
    token = TOKENS["size"]
    large = ask(replica, "/v1/enter", {"x": "x" * 30_000}, token=token)
    assert (large.status, large.kind) == (413, "too-large")
    assert "max_message" in large.body["detail"]
    long = ask(replica, "/v1/enter", entering(ticket("é" * 11), if_free=True), token=token)
    assert (long.status, long.kind) == (413, "too-large")
    assert "max_name" in long.body["detail"]
    assert (
        ask(replica, "/v1/enter", entering(ticket("é" * 10), if_free=True), token=token).status
        == 200
    )
    for ttl, longest in ((0.5, None), (3601, 3600)):
        reply = ask(replica, "/v1/enter", entering(ticket("t", ttl=ttl), if_free=True), token=token)
        assert (reply.status, reply.kind) == (422, "unsupported")
        assert reply.body.get("longest_ttl") == longest


async def test_a_message_that_is_too_large_ends_the_line(replica: Replica) -> None:
    async with LineClient(replica, TOKENS["size"]) as line:
        await line.socket.send_str("x" * 30_000)
        closed = await line.socket.receive(timeout=30)
        assert (closed.type, closed.data) == (aiohttp.WSMsgType.CLOSE, 1009)


def test_leases(replica: Replica) -> None:
    token = TOKENS["lease"]
    mine = [ticket(f"lease:{number}") for number in range(5)]
    for each in mine[:4]:
        assert ask(replica, "/v1/enter", entering(each), token=token).status == 200
    reply = ask(replica, "/v1/enter", entering(mine[4]), token=token)
    assert (reply.status, reply.kind) == (429, "limited")
    assert "leases_per_principal" in reply.body["detail"]
    assert int(reply.headers["Retry-After"]) >= 1
    assert ask(replica, "/v1/enter", entering(mine[0]), token=token).status == 200  # asked again
    assert ask(replica, "/v1/leave", {"ticket": mine[0], "timeout": 5}, token=token).body["done"]
    brief = ticket("lease:brief", ttl=1)
    assert ask(replica, "/v1/enter", entering(brief), token=token).status == 200
    eventually(  # the brief one lapses
        lambda: ask(replica, "/v1/enter", entering(mine[4]), token=token).status == 200,
        "a lease that was not renewed to be forgotten",
    )


def test_waits(replica: Replica) -> None:
    one, other = TOKENS["wait"], TOKENS["wait2"]
    holder = ticket("wait")
    assert ask(replica, "/v1/enter", entering(holder), token=other).status == 200
    waiting = [ticket("wait") for _ in range(2)]
    for each in waiting:
        assert ask(replica, "/v1/enter", entering(each), token=one).status == 200
    reply = ask(replica, "/v1/enter", entering(ticket("wait")), token=one)
    assert (reply.status, reply.kind) == (429, "limited")
    assert "waits_per_principal" in reply.body["detail"]
    assert ask(replica, "/v1/enter", entering(waiting[0]), token=one).status == 200  # looks again
    free = ask(replica, "/v1/enter", entering(ticket("free"), if_free=True), token=one)
    assert free.status == 200
    last = ticket("wait")
    assert ask(replica, "/v1/enter", entering(last), token=other).status == 200
    reply = ask(replica, "/v1/enter", entering(ticket("wait")), token=other)
    assert (reply.status, reply.kind) == (503, "overloaded")
    assert int(reply.headers["Retry-After"]) >= 1
    parked = ask(replica, "/v1/park", {"ticket": waiting[0], "timeout": 3000}, token=one)
    assert parked.body == {"standings": [None]}  # after max_wait: ask again
    for each, token in ((waiting[0], one), (waiting[1], one), (last, other), (holder, other)):
        assert ask(replica, "/v1/leave", {"ticket": each, "timeout": 5}, token=token).body["done"]
    _, metrics = replica.get("/metrics")
    for limit in ("waits_per_principal", "waits"):
        assert f'fencelock_service_limited_total{{limit="{limit}"}} 1.0' in metrics


async def test_the_rate(replica: Replica) -> None:
    """One principal is too fast. Another one, at the same time, is answered."""
    async with (
        LineClient(replica, TOKENS["hasty"]) as hasty,
        LineClient(replica, TOKENS["calm"]) as calm,
    ):
        for _ in range(200):
            await hasty.send("recall", name="x")
        problems = []
        for _ in range(200):
            message = await hasty.socket.receive_json(timeout=30)
            if "problem" in message["answer"]:
                problems.append(message["answer"]["problem"])
        assert "problem" not in await calm.ask("recall", name="x")
        assert problems
        assert {each["status"] for each in problems} == {429}
        assert "`rate`" in problems[0]["detail"]
        assert problems[0]["retry_after"] > 0
        freed = await hasty.ask("leave", ticket=ticket("x"))
        assert freed == {"done": False}  # what frees something is refused last


# --- connections


@pytest.fixture(scope="module")
def brief(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Replica]:
    """A replica with little patience."""
    options = ("--header-timeout", "1", "--body-timeout", "1", "--send-timeout", "1")
    folder = tmp_path_factory.mktemp("brief")
    with serving(
        folder, *options, "--idle-timeout", "2", "--connections-per-address", "1500"
    ) as running:
        yield running


def _works(replica: Replica) -> None:
    mine = ticket("works")
    assert ask(replica, "/v1/enter", entering(mine)).body["standings"][0]["place"] == 2
    assert ask(replica, "/v1/leave", {"ticket": mine, "timeout": 5}).body == {"done": True}


@pytest.mark.parametrize(
    "sent", [b"", b"GET /livez HTTP/1.1\r\nHost: x\r\nX-Slow: "], ids=["silence", "headers"]
)
def test_a_client_that_sends_no_request_is_cut(brief: Replica, sent: bytes) -> None:
    with raw(brief) as slow:
        slow.sendall(sent)
        _works(brief)
        eventually(lambda: is_cut(slow), "the connection to be cut")


def test_headers_that_come_byte_by_byte_are_cut(brief: Replica) -> None:
    with raw(brief) as slow:
        slow.sendall(b"GET /livez HTTP/1.1\r\nHost: x\r\n")

        def dribble() -> bool:
            try:
                slow.sendall(b"X: y\r\n")
            except OSError:
                return True
            return is_cut(slow)

        eventually(dribble, "the connection to be cut")


def test_a_body_that_does_not_end_is_refused(brief: Replica) -> None:
    with raw(brief) as slow:
        slow.sendall(b"POST /v1/enter HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 100\r\n\r\n{")
        _works(brief)
        slow.settimeout(30)
        answer = slow.recv(65_536)
        assert b" 408 " in answer.partition(b"\r\n")[0]
        eventually(lambda: is_cut(slow), "the connection to be cut")


def test_a_second_request_that_does_not_come_is_cut(brief: Replica) -> None:
    with raw(brief) as slow:
        slow.sendall(b"GET /livez HTTP/1.1\r\nHost: x\r\n\r\nGET /livez HTT")
        slow.settimeout(30)
        assert b"200" in slow.recv(65_536)
        eventually(lambda: is_cut(slow), "the connection to be cut")


def test_a_crowd_that_says_nothing(brief: Replica) -> None:
    """From another address. A normal client works meanwhile, and the crowd is cut."""
    with ExitStack() as crowd:
        silent = [crowd.enter_context(raw(brief, "127.0.0.2")) for _ in range(effort(1_000, 1_400))]
        _works(brief)
        eventually(lambda: is_cut(silent[0]) and is_cut(silent[-1]), "the crowd to be cut")
        _works(brief)


def test_too_many_connections(tmp_path: Path) -> None:
    with serving(tmp_path, "--connections-per-address", "5") as replica, ExitStack() as crowd:
        eventually(lambda: ask(replica, "/livez").status == 200, "earlier connections to be gone")
        for _ in range(5):
            crowd.enter_context(raw(replica, "127.0.0.2"))

        def refused() -> bytes:
            with raw(replica, "127.0.0.2") as one_more:
                one_more.settimeout(30)
                return one_more.recv(65_536)

        answer = refused()
        assert b" 503 " in answer.partition(b"\r\n")[0]
        assert b"Retry-After: 1\r\n" in answer
        assert json.loads(answer.rpartition(b"\r\n")[2])["detail"] == "too many connections"
        _works(replica)  # from another address


def test_a_line_whose_client_does_not_read_is_cut(brief: Replica) -> None:
    long = ticket("unread")
    long["owner"] = {"host": "h", "pid": 1, "data": "x" * 60_000}
    assert ask(brief, "/v1/enter", entering(long)).status == 200
    act = {"op": "inspect", "name": "unread", "timeout": 10}
    text = json.dumps({"seq": 1, "act": act}).encode()
    assert len(text) < 126
    frame = bytes([0x81, 0x80 | len(text), 0, 0, 0, 0]) + text  # masked with zeros
    with raw(brief) as deaf:
        deaf.sendall(
            f"GET {PATH} HTTP/1.1\r\nHost: 127.0.0.1\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            f"Sec-WebSocket-Key: {'A' * 22}==\r\nSec-WebSocket-Version: 13\r\n"
            f"Sec-WebSocket-Protocol: {SUBPROTOCOL}\r\n\r\n".encode()
        )
        assert deaf.recv(12) == b"HTTP/1.1 101"
        deaf.settimeout(30)

        def write_for_ever() -> None:
            while True:
                deaf.sendall(frame)

        with pytest.raises(ConnectionError):
            write_for_ever()
    _works(brief)


def test_silence_before_the_hello_of_tls(tmp_path: Path) -> None:
    certificates = Certificates(tmp_path)
    options = (*certificates.server("x"), "--header-timeout", "1")
    with TlsReplica(tmp_path / "tls", "memory://", *options) as replica, raw(replica) as silent:
        assert ask(replica, "/livez", tls=certificates.client()).status == 200
        eventually(lambda: is_cut(silent), "the connection to be cut")
