"""What can go wrong on one line: replies lost, a line cut, a server that is not ours, a wrong token."""

from __future__ import annotations

import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

import fencelock
from fencelock.engines.http.websocket import Handshake
from tests.conformance.cells import FACES, Cell, queued
from tests.engines.http.conftest import StartReplica
from tests.engines.redis.impostors import Impostor
from tests.proxy import TcpProxy
from tests.servers import HOST, _make_certificate
from tests.servers_service import Replica, line_replies
from tests.waiting import soon, within


@pytest.fixture(params=FACES)
def face(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def proxy(replica_of: Callable[[str], Replica]) -> Iterator[TcpProxy]:
    with TcpProxy(replica_of("redis").port, line_replies) as proxy:
        yield proxy


async def test_the_reply_to_any_request_is_lost(
    face: str, proxy: TcpProxy, replica_of: Callable[[str], Replica]
) -> None:
    with fencelock.Client(replica_of("redis").url) as witness:
        for number in count(1):
            cell = Cell("http+redis", face, f"http://{HOST}:{proxy.port}")
            client, name = cell.client(), uuid4().hex
            await cell.run(client.names)  # connected
            cut = proxy.cut_after_request(number)
            with suppress(fencelock.EngineError, fencelock.LeaseLost):
                lease = await cell.run(client.lock(f"{name}:a", ttl=9).acquire)
                try:
                    await cell.run(lease.renew)
                finally:
                    await cell.run(lease.release)
            if not cut.is_set():
                await cell.close()
                break
            await soon(lambda: not witness.names(f"{name}*"), f"nothing left after {number}")  # noqa: B023
            await cell.close()
        assert number > 3, "there was something to cut"


async def test_the_line_of_a_waiter_is_cut(face: str, proxy: TcpProxy) -> None:
    cell = Cell("http+redis", face, f"http://{HOST}:{proxy.port}")
    client = cell.client()
    lease = await cell.run(client.lock(cell.name).acquire)
    waiter = cell.actor().start(client.lock(cell.name).acquire)
    await queued(cell, client, 1)
    (before,) = (await cell.run(lambda: client.inspect(cell.name))).waiters
    lines = proxy.connections
    proxy.cut()
    await soon(lambda: proxy.connections > lines, "a new line")
    release: Any = lease.release
    with suppress(fencelock.EngineError):
        await cell.run(release)
    assert (await within(waiter)).fence == before.fence
    await cell.close()


@pytest.mark.parametrize("way", ["black_hole", "mute", "refuse"])
async def test_a_bad_network(face: str, proxy: TcpProxy, way: str) -> None:
    """Before the first contact, and on a line that is open."""
    for connected in (False, True):
        proxy.heal()
        cell = Cell("http+redis", face, f"http://{HOST}:{proxy.port}")
        client = cell.client()
        if connected:
            await cell.run(client.names)
        getattr(proxy, way)()
        began = time.monotonic()
        with pytest.raises(fencelock.EngineError) as caught:
            await cell.run(lambda: client.lock(cell.name).acquire(timeout=0.3))  # noqa: B023
        assert time.monotonic() - began < 20, "reported, not hung"
        if not connected:
            assert caught.value.outcome == "not applied"
        proxy.heal()
        await cell.close()


async def test_a_proxy_that_buffers(face: str, proxy: TcpProxy) -> None:
    cell = Cell("http+redis", face, f"http://{HOST}:{proxy.port}")
    proxy.delay(0.1)
    client = cell.client()
    lease = await cell.run(client.lock(cell.name).acquire)
    waiter = cell.actor().start(client.lock(cell.name).acquire)
    await queued(cell, client, 1)
    await cell.run(lease.release)
    assert (await within(waiter)).fence > lease.fence
    proxy.heal()
    await cell.close()


def answers(text: bytes) -> Callable[[bytes], bytes]:
    return lambda heard: text if heard.endswith(b"\r\n\r\n") else b""


def http(status: str, body: bytes = b"", kind: str = "text/html") -> bytes:
    head = f"HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\n\r\n"
    return head.encode() + body


UNAUTHORIZED = (
    b'{"type":"urn:fencelock:unauthorized","title":"A valid token is needed","status":401}'
)
DRAINING = b'{"type":"urn:fencelock:draining","title":"about to end","status":503}'


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        (http("401 Unauthorized", UNAUTHORIZED, "application/problem+json"), "FENCELOCK_TOKEN"),
        (http("401 Unauthorized", b"<html>"), "FENCELOCK_TOKEN"),
        (http("503 Service Unavailable", DRAINING, "application/problem+json"), "about to end"),
        (http("502 Bad Gateway", b"<html>"), "a proxy answered with HTTP status 502"),
        (http("404 Not Found"), "no lock service of ours"),
        (http("301 Moved Permanently"), "use the other URL"),
        (http("200 OK", b"welcome"), "no lock service of ours"),
        (b"-ERR unknown command\r\n", "no lock service of ours"),
        (http("101 Switching Protocols").replace(b"Content-Length: 0\r\n", b""), "WebSocket"),
    ],
)
async def test_somebody_else_answers(face: str, answer: bytes, says: str) -> None:
    asked: list[bytes] = []

    def impostor(heard: bytes) -> bytes:
        asked.append(heard)
        return answers(answer)(heard)

    with Impostor(impostor) as server:
        cell = Cell("http", face, f"http://s3cr3t@{HOST}:{server.port}/")
        client = cell.client()
        with pytest.raises(fencelock.EngineError, match=says) as caught:
            await cell.run(lambda: client.lock(cell.name).acquire(timeout=0))
        assert caught.value.outcome == "not applied"
        assert "s3cr3t" not in str(caught.value) + repr(caught.value.__cause__)
        assert len(asked) <= 3, "no storm of attempts"
        await cell.close()


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("http://", "name the service"),
        ("http://s3cr3t:t0ken@host", "one token only"),
        ("http://s3cr3t%0D%0AX:@host", "printable ASCII"),
        ("http://s3cr3t@host/?wait=1", "unknown option 'wait'"),
        ("http://s3cr3t@host/?ca=x", "unknown option 'ca'"),
        ("https://s3cr3t@host/?ca=/nowhere", "can't read the certificate"),
    ],
)
def test_a_url_that_is_wrong(url: str, says: str) -> None:
    with pytest.raises(ValueError, match=says) as caught:
        fencelock.Client(url)
    assert "s3cr3t" not in str(caught.value)


def test_where_the_token_may_stand(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FENCELOCK_TOKEN", "env")
    for url, token in (("http://a@h", "a"), ("http://:b@h", "b"), ("http://h", "env")):
        with fencelock.Client(url) as client:
            login = client._context.bare_engine._nodes[0].login  # type: ignore[attr-defined]
            assert login.token == token
            assert token not in repr(login).removeprefix("<Login")
    assert b"Bearer" not in Handshake("h", "/", "p").request


# --- TLS: the service has a proxy in front of it that ends TLS


@pytest.fixture
def tls_port(tmp_path: Path, replica_of: Callable[[str], Replica]) -> Iterator[tuple[int, Path]]:
    certificate = tmp_path / "certificate.pem"
    _make_certificate(certificate)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    with socket.create_server((HOST, 0)) as listener:

        def accept() -> None:
            while True:
                try:
                    sock, _ = listener.accept()
                except OSError:
                    return
                threading.Thread(target=serve, args=(sock,), daemon=True).start()

        def serve(sock: socket.socket) -> None:
            with suppress(OSError):
                client = context.wrap_socket(sock, server_side=True)
                server = socket.create_connection((HOST, replica_of("redis").port))
                threading.Thread(target=pump, args=(server, client), daemon=True).start()
                pump(client, server)

        def pump(source: socket.socket, sink: socket.socket) -> None:
            with suppress(OSError, ValueError), source, sink:
                while data := source.recv(65_536):
                    sink.sendall(data)

        replica_of("redis")
        threading.Thread(target=accept, daemon=True).start()
        yield listener.getsockname()[1], certificate
        listener.shutdown(socket.SHUT_RDWR)


async def test_tls(face: str, tls_port: tuple[int, Path]) -> None:
    port, certificate = tls_port
    cell = Cell("http+redis", face, f"https://localhost:{port}/?ca={certificate}")
    client = cell.client()
    lease = await cell.run(client.lock(cell.name).acquire)
    waiter = cell.actor().start(client.lock(cell.name).acquire)
    await queued(cell, client, 1)
    with pytest.raises(fencelock.LockTimeout):
        await cell.run(lambda: client.lock(cell.name).acquire(timeout=0.2))
    await cell.run(lease.release)
    assert (await within(waiter)).fence > lease.fence
    await cell.close()


async def test_a_certificate_that_nobody_knows(face: str, tls_port: tuple[int, Path]) -> None:
    cell = Cell("http+redis", face, f"https://localhost:{tls_port[0]}")
    client = cell.client()
    with pytest.raises(fencelock.EngineError, match="certificate verify failed"):
        await cell.run(lambda: client.lock(cell.name).acquire(timeout=0))
    await cell.close()


# --- what the engine behind can't do


async def test_correctness_is_refused_at_the_first_contact(
    face: str, replica_of: Callable[[str], Replica]
) -> None:
    for engine, safe in (("redis", False), ("sqlite", True)):
        cell = Cell("http", face, replica_of(engine).url)
        client = cell.client(purpose="correctness")
        if safe:
            lease = await cell.run(client.lock(cell.name, guard=None).acquire)
            assert client.traits.guarantee == "correctness"
            await cell.run(lease.release)
        else:
            names = [cell.name, cell.name + "2"]
            for lock in (client.lock(cell.name, guard=None), client.lock_all(names)):
                with pytest.raises(fencelock.UnsafeEngine):
                    await cell.run(lock.acquire)
            assert not client._context.sweeper, (
                "nothing was touched, so nothing has to be taken out"
            )
            assert await cell.run(lambda: client.names(cell.name + "*")) == []  # noqa: B023
            assert (client.traits.provisional, client.traits.guarantee) == (False, "efficiency")
            with pytest.raises(fencelock.UnsafeEngine):
                client.lock(cell.name, purpose="correctness")
        await cell.close()


async def test_a_lock_for_correctness_before_the_first_contact(
    face: str, replica_of: Callable[[str], Replica]
) -> None:
    cell = Cell("http", face, replica_of("redis").url)
    lock = cell.client().lock(cell.name, purpose="correctness", guard=None)
    with pytest.raises(fencelock.UnsafeEngine):
        await cell.run(lock.acquire)
    await cell.close()


async def test_what_the_engine_behind_can_not_do(
    face: str, replica: StartReplica, redlock_url: str
) -> None:
    cell = Cell("http", face, replica(redlock_url).url)
    client = cell.client()
    semaphore = client.semaphore(cell.name, 2)  # the client can't know yet
    with pytest.raises(fencelock.Unsupported, match="has the mutex only"):
        await cell.run(semaphore.acquire)
    with pytest.raises(fencelock.Unsupported):
        client.semaphore(cell.name, 2)  # now it does
    lease = await cell.run(client.lock(cell.name).acquire)
    await cell.run(lease.release)
    await cell.close()


def test_an_idle_line_outlives_a_restart(replica: StartReplica) -> None:
    server = replica()
    with fencelock.Client(server.url) as client:
        client.lock("x").acquire().release()
        server.stop()
        server.start()
        client.lock("x").acquire(timeout=5).release()  # nobody has noticed that the line was closed
