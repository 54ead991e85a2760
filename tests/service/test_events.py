"""`/v1/events`: what a live page hears, and what others must not."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from socket import SO_RCVBUF, SOL_SOCKET
from typing import Any

import aiohttp
import pytest
from aiohttp import web

from fencelock.engines.http.wire import Evict
from fencelock.service import events
from fencelock.service.app import Service
from fencelock.service.principals import Principal
from fencelock.service.tokens import Keys, read_keys
from tests.service.company import token_in
from tests.service.in_process import memory, serving
from tests.service.raw_line import raw_line, ticket
from tests.waiting import PATIENCE, soon


class Stream:
    """A consumer as a browser has it."""

    def __init__(self, answer: aiohttp.ClientResponse) -> None:
        self.answer = answer
        self.last_id = ""

    async def block(self) -> list[str]:
        """The lines until the next empty line. None at the end."""
        lines: list[str] = []
        while line := await asyncio.wait_for(self.answer.content.readline(), PATIENCE):
            if line == b"\n":
                break
            lines.append(line.decode().rstrip("\n"))
        return lines

    async def next(self) -> tuple[str, dict[str, Any]]:
        fields = dict(line.split(": ", 1) for line in await self.block())
        self.last_id = fields["id"]
        return fields["event"], json.loads(fields["data"])


@asynccontextmanager
async def stream(url: str, **headers: str) -> AsyncIterator[Stream]:
    async with (
        aiohttp.ClientSession() as session,
        session.get(f"{url}/v1/events", headers=headers) as answer,
    ):
        assert answer.status == 200
        assert answer.content_type == "text/event-stream"
        yield Stream(answer)


async def test_the_story_of_a_lock() -> None:
    service = Service(memory())
    async with serving(service) as url, stream(url) as consumer, raw_line(url) as line:
        assert await consumer.next() == ("hello", {"replica": service.replica, "look_again": False})
        holder, waiter = ticket("order:1"), ticket("order:1")
        fence = (await line.enter(holder)).fence
        await line.enter(waiter)
        await line.leave(holder)
        await line.wake()
        await line.ask(Evict("order:1", timeout=5.0))
        await line.renew(waiter)

        heard = [await consumer.next() for _ in range(6)]
        words = ["granted", "waiting", "released", "granted", "broken", "lost"]
        assert [word for word, _ in heard] == words
        assert {data["name"] for _, data in heard} == {"order:1"}
        first = heard[0][1]
        assert (first["fence"], first["kind"], first["abandoned"]) == (fence, "lock", False)
        assert first["owner"] == {"host": "host", "pid": 1, "label": "tests"}
        assert [data.get("ticket") for _, data in heard] == [1, 2, 1, 2, None, 2]
        assert holder.id not in json.dumps(heard)

        await line.enter(waiting := ticket("order:1"))
        await line.enter(giving_up := ticket("order:1"))
        await line.leave(giving_up)
        assert [(await consumer.next())[0] for _ in range(3)] == ["granted", "waiting", "left"]
        await line.leave(waiting)


async def test_who_may_read_what() -> None:
    class Shared(Service):
        def identify(self, request: web.Request) -> Principal:
            everything = {"read": ("order:*",), "lock": ("*",)}
            return Principal("shop", everything)  # type: ignore[arg-type]

    async with serving(Shared(memory())) as url, stream(url) as consumer, raw_line(url) as line:
        await consumer.next()
        await line.enter(ticket("payment:1"))
        await line.enter(ticket("order:1"))
        assert (await consumer.next())[1]["name"] == "order:1"


async def test_one_that_comes_back_has_to_look_again() -> None:
    async with serving(Service(memory())) as url, raw_line(url) as line:
        async with stream(url) as consumer:
            await line.enter(ticket("x"))
            await consumer.next()
            await consumer.next()
        async with stream(url, **{"Last-Event-ID": consumer.last_id}) as again:
            assert not (await again.next())[1]["look_again"]  # it has missed nothing here
            await line.enter(ticket("y"))
            await again.next()
        async with stream(url, **{"Last-Event-ID": consumer.last_id}) as again:
            assert (await again.next())[1]["look_again"]


async def test_a_draining_replica_says_so_and_ends() -> None:
    service = Service(memory())
    async with serving(service) as url, stream(url) as consumer:
        await consumer.next()
        await service.drain()
        assert await consumer.next() == ("draining", {})
        assert await consumer.block() == []
        assert consumer.answer.content.at_eof()


async def test_a_heartbeat(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(events, "HEARTBEAT", 0.01)
    async with serving(Service(memory())) as url, stream(url) as consumer:
        await consumer.next()
        assert await consumer.block() == [": still here"]


async def test_a_token_that_is_revoked_ends_the_stream(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(events, "HEARTBEAT", 0.01)
    file = tmp_path / "tokens.toml"
    bearer = {"Authorization": f"Bearer {token_in(file, 'page', read=['*'])}"}
    service = Service(memory(tokens=str(file)), read_keys(file))
    async with serving(service) as url, stream(url, **bearer) as consumer:
        await consumer.next()
        assert await consumer.block() == [": still here"]
        service.use_keys(Keys({}, {}))
        while await consumer.block():
            pass
        assert consumer.answer.content.at_eof()


async def test_a_consumer_that_does_not_read_is_cut() -> None:
    service = Service(memory())
    hub = service.watch.hub
    async with serving(service) as url, stream(url) as consumer, stream(url) as reader:
        await consumer.next()
        await reader.next()
        transport = consumer.answer.connection and consumer.answer.connection.transport
        assert isinstance(transport, asyncio.Transport)
        transport.pause_reading()
        transport.get_extra_info("socket").setsockopt(SOL_SOCKET, SO_RCVBUF, 4096)

        async def reading() -> None:
            while await reader.block():
                pass

        task = asyncio.create_task(reading())
        text = "x" * 1000

        async def cut() -> bool:
            for _ in range(20):
                hub._publish("granted", "x", {"text": text})
            return len(hub._consumers) == 1

        await soon(cut, "the consumer to be cut")
        task.cancel()
    assert not hub._consumers


async def test_only_so_many_consumers() -> None:
    service = Service(memory(event_streams=1))
    async with serving(service) as url, aiohttp.ClientSession() as session:
        async with stream(url) as consumer:
            await consumer.next()
            async with session.get(f"{url}/v1/events") as answer:
                assert answer.status == 429
                assert (await answer.json(content_type=None))["type"] == "urn:fencelock:limited"

        async def answered() -> bool:
            async with session.get(f"{url}/v1/events") as answer:
                return answer.status == 200

        await soon(answered, "the place of the one that is gone")
