"""What a replica shows of what the others have seen: real replicas, and peers that are none."""

from __future__ import annotations

import asyncio
import gzip
import signal
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from aiohttp import web

from fencelock.core.ticket import Place
from fencelock.engines.http.wire import WireOwner
from fencelock.service.app import Service
from fencelock.service.live import peers as module
from fencelock.service.live.peers import Peers, merged
from fencelock.service.live.wire import Entry, Replica
from fencelock.service.settings import Settings
from fencelock.service.tokens import read_keys
from tests.servers import HOST
from tests.servers_service import Replica as Process
from tests.service.company import token_in
from tests.service.in_process import memory, serving
from tests.service.raw_line import raw_line, ticket
from tests.waiting import soon

NAME = "order/1:é%2F"


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """A busy machine must not make a replica that answers look like one that hangs."""
    monkeypatch.setattr(module, "TIMEOUT", 30.0)


class Noted:
    """The requests for the live page that a replica was asked."""

    def __init__(self, service: Service) -> None:
        self.asked: list[str] = []
        service.app.middlewares.append(self._note)

    @web.middleware
    async def _note(self, request: web.Request, handler: Any) -> web.StreamResponse:
        if request.path.startswith("/v1/live"):
            self.asked.append(request.raw_path)
        response: web.StreamResponse = await handler(request)
        return response


@asynccontextmanager
async def asking(*urls: str, replica: str = "us") -> AsyncIterator[Peers]:
    peers = Peers(urls, replica)
    try:
        yield peers
    finally:
        await peers.close()


async def test_two_replicas_have_seen_the_same_ticket(redis_url: str) -> None:
    """Its client got no answer from the first one, and went on at the other."""
    one, other = (Service(Settings(engine=redis_url)) for _ in range(2))
    moving, staying = ticket(NAME), ticket(NAME)
    async with serving(one) as url, serving(other) as elsewhere:
        async with raw_line(url) as line, raw_line(elsewhere) as second:
            fence = (await line.enter(moving)).fence
            assert (await second.enter(moving)).place is Place.ADMITTED
            assert await second.leave(moving)
            await line.enter(staying)
        one.watch.engine._seen[moving.id].expires_at = 0.0
        one.watch.engine.forget_the_silent()
        mine = one.watch.history.of(NAME)
        async with asking(elsewhere, url, elsewhere, replica=one.replica) as peers:
            found = await peers.histories(NAME, None)
        ((about, told),) = found
        assert (about.replica, about.url, about.reached) == (other.replica, elsewhere, True)
        assert about.since == other.watch.history.started
        assert [each.event for each in mine] == ["silent", "granted", "granted"]
        assert [each.event for each in told] == ["released", "granted"]
        both = merged([mine, told])
        assert [each.event for each in both] == ["granted", "released", "granted"]
        assert [each.replica for each in both] == [one.replica, other.replica, one.replica]
        assert both[1].fence == both[2].fence == fence


def test_what_is_not_the_same_stays() -> None:
    owner, another = WireOwner("host", 1), WireOwner("host", 2)
    mine = [
        Entry(9.0, "broken", "a", fence="2", by="oncall"),
        Entry(8.0, "silent", "a", owner, "2"),
        Entry(2.0, "granted", "a", owner, "2"),
        Entry(1.0, "refused write", "a", fence="1"),
    ]
    told = [
        Entry(9.5, "broken", "b", fence="2", by="oncall"),
        Entry(7.0, "lost", "b", another, "1"),
        Entry(1.5, "refused write", "b", fence="1"),
        Entry(1.2, "granted", "b", another, "1"),
    ]
    assert merged([mine, told]) == sorted([*mine, *told], key=lambda each: -each.time)
    assert len(merged([mine * 100])) == 200


async def test_the_samples_of_another_replica() -> None:
    service = Service(memory())
    live = Noted(service)
    for each in range(60, 200, 5):
        service.watch.figures.sample(1_000_000.0 + each)
    async with serving(service) as url, asking(url, "http://127.0.0.1:1") as peers:
        whole, away = await peers.figures(0.0, None)
        assert (whole.replica, whole.url, whole.reached) == (service.replica, url, True)
        assert whole.started == service.watch.figures.started
        assert len(whole.points.time) == len(whole.points.wait_p99) == 28
        assert (away.reached, away.url, away.points.time) == (False, "http://127.0.0.1:1", [])
        found = [await peers.figures(1_000_000.0 + since, None) for since in (181, 189.5, 195)]
        assert [each[0].points.time[:1] for each in found] == [[1_000_185.0], [1_000_190.0], []]
        assert len(live.asked) == 2, "pages that are up to date ask the same"


async def test_a_token_is_only_passed_on(tmp_path: Path) -> None:
    token = token_in(tmp_path / "tokens.toml", "oncall", read=["*"])
    service = Service(memory(), read_keys(tmp_path / "tokens.toml"))
    live = Noted(service)
    async with serving(service) as url, asking(url) as peers:
        for authorization in (None, "Bearer flk_wrong"):
            ((refused, _),) = await peers.histories(NAME, authorization)
            assert (refused.reached, refused.detail) == (False, "it does not know this token")
        ((known, _),) = await peers.histories(NAME, f"Bearer {token}")
        assert (known.reached, known.replica) == (True, service.replica)
        assert len(live.asked) == 3


async def test_many_pages_are_one_question(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_SHARED_FOR", 0.2)
    monkeypatch.setattr(module, "_MOST_QUESTIONS", 2)
    service = Service(memory())
    live = Noted(service)
    async with serving(service) as url, asking(url) as peers:
        found = await asyncio.gather(*(peers.histories("x", "Bearer a") for _ in range(50)))
        assert all(each[0][0].reached for each in found)
        assert len(live.asked) == 1
        await peers.histories("x", "Bearer b")
        assert len(live.asked) == 2
        ((refused, _),) = await peers.histories("y", "Bearer a")
        assert "too much" in refused.detail
        await soon(lambda: not peers._asked, "the answers to be forgotten")
        await peers.histories("x", "Bearer a")
        assert len(live.asked) == 3


async def test_a_replica_that_stands_still(
    private_replica: Process, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "TIMEOUT", 0.3)
    private_replica.tell(signal.SIGSTOP)
    try:
        async with asking(private_replica.url) as peers:
            ((about, told),) = await peers.histories(NAME, None)
    finally:
        private_replica.tell(signal.SIGCONT)
    assert told == []
    assert about == Replica(url=private_replica.url, detail="it did not answer within 0.3 s")


def _says(status: str, body: bytes = b"", *headers: str) -> bytes:
    about = [f"HTTP/1.1 {status}", f"Content-Length: {len(body)}", *headers]
    return "\r\n".join(about).encode() + b"\r\n\r\n" + body


ZIPPED = gzip.compress(b'{"replicas":[{"replica":"them"}]}')
"""Not asked for, and it could be short and become endless."""

NONSENSE = {
    "closes": (b"", "the connection ended before the answer"),
    "is no HTTP": (b"SSH-2.0-OpenSSH_9.9\r\n\r\n", "the connection ended before the answer"),
    "cuts": (_says("200 OK", b"{}")[:-1], "the connection ended before the answer"),
    "is away": (_says("503 Service Unavailable"), "it answered with the status 503"),
    "has no page": (_says("404 Not Found", b"{}"), "it has no live page"),
    "is no JSON": (_says("200 OK", b"<html>"), "its answer makes no sense here"),
    "is empty": (_says("200 OK", b'{"replicas":[]}'), "its answer makes no sense here"),
    "is deep": (_says("200 OK", b"[" * 100_000), "its answer makes no sense here"),
    "is zipped": (_says("200 OK", ZIPPED, "Content-Encoding: gzip"), "its answer makes no"),
    "is endless": (_says("200 OK", b" " * (module.MOST_BYTES + 1)), "its answer has more than"),
    "sends away": (_says("307 Temporary", b"", "Location: LOCATION"), "with the status 307"),
}


async def test_peers_that_are_none() -> None:
    """One of them would like to have the token for somebody else."""
    asked: list[str] = []

    async def listen(stack: AsyncExitStack, name: str, text: bytes) -> str:
        async def reply(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.readuntil(b"\r\n\r\n")
            asked.append(name)
            writer.write(text)
            writer.close()

        server = await stack.enter_async_context(await asyncio.start_server(reply, HOST, 0))
        return f"http://{HOST}:{server.sockets[0].getsockname()[1]}"

    service = Service(memory())
    async with AsyncExitStack() as stack:
        thief = await listen(stack, "thief", _says("200 OK"))
        urls = ["http://127.0.0.1:1", f"http://{'x' * 64}"]
        for name, (text, _) in NONSENSE.items():
            urls.append(await listen(stack, name, text.replace(b"LOCATION", thief.encode())))
        urls.append(await stack.enter_async_context(serving(service)))
        async with asking(*urls) as peers:
            found = await peers.histories(NAME, f"Bearer {uuid4().hex}")
    assert [about.url for about, _ in found] == urls
    assert [about.reached for about, _ in found] == [False] * (len(urls) - 1) + [True]
    details = [about.detail for about, _ in found]
    assert details[0] == "it can't be reached: Connection refused"
    assert details[1] == "it can't be asked"
    for detail, (_, expected) in zip(details[2:], NONSENSE.values(), strict=False):
        assert expected in detail
    assert set(asked) == set(NONSENSE), "nobody was asked for whom the token is not"
