"""HAProxy and nginx with the files in ops/ keep lines and long polls alive, and repeat nothing."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any
from uuid import uuid4

import aiohttp
import msgspec
import pytest

from fencelock.core.ticket import Place
from fencelock.engines.http.wire import GOING_AWAY, Enter, Park
from fencelock.service.app import Service
from tests.servers import HOST
from tests.servers_proxies import Haproxy, LoadBalancer, Nginx
from tests.servers_service import Replica
from tests.service.in_process import memory, serving
from tests.service.raw_line import raw_line, ticket
from tests.waiting import soon

IDLE = 1.5
"""Seconds without a byte: longer than the time limits that the tests give to the proxies."""

IMPATIENT: dict[type[LoadBalancer], dict[str, str]] = {
    Haproxy: {"timeout client 75s": "timeout client 1s"},
    Nginx: {},  # tests/servers_proxies.py has the time limit
}
"""Shortens the time limits that the files must not rely on."""

each_proxy = pytest.mark.parametrize("proxy", [Haproxy, Nginx])
Start = Callable[..., LoadBalancer]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    running: list[LoadBalancer] = []

    def started(proxy: type[LoadBalancer], ports: list[int], **changes: str) -> LoadBalancer:
        folder = tmp_path / proxy.__name__
        running.append(proxy(folder, ports, {**IMPATIENT[proxy], **changes}))
        return running[-1].start()

    yield started
    for each in running:
        each.kill()


def port_of(url: str) -> int:
    return int(url.rpartition(":")[2])


async def in_thread(work: Callable[..., Any], *arguments: Any, **more: Any) -> Any:
    """Starting a proxy waits for an answer of the service, which runs in this event loop."""
    return await asyncio.to_thread(work, *arguments, **more)


@each_proxy
async def test_a_line(proxy: type[LoadBalancer], start: Start) -> None:
    async with serving(Service(memory())) as url:
        balancer = await in_thread(start, proxy, [port_of(url)])
        async with raw_line(balancer.url) as line, raw_line(balancer.url) as other:
            holder, waiter = ticket("x"), ticket("x")
            assert (await line.enter(holder)).place is Place.ADMITTED
            assert (await other.enter(waiter)).place is Place.WAITING
            await asyncio.sleep(IDLE)
            assert await line.leave(holder)
            wake = await other.wake()
            assert wake.id == waiter.id
            assert wake.standing is None or wake.standing.place is Place.ADMITTED
            assert (await other.enter(waiter)).place is Place.ADMITTED
            assert await other.leave(waiter)


async def test_a_line_needs_the_time_out_of_tunnels(start: Start) -> None:
    """So the last test proves something."""
    async with serving(Service(memory())) as url:
        changes = {"    timeout tunnel 1h": "    # no time-out"}
        balancer = await in_thread(start, Haproxy, [port_of(url)], **changes)
        async with raw_line(balancer.url) as line:
            await line.closed()  # though nobody has closed it


@each_proxy
async def test_a_long_poll(proxy: type[LoadBalancer], start: Start) -> None:
    async with serving(Service(memory())) as url, raw_line(url) as line:
        balancer = await in_thread(start, proxy, [port_of(url)])
        await line.enter(ticket("x"))
        waiter = ticket("x")
        await ask(balancer.url, Enter([waiter], timeout=5.0))
        answer = await ask(balancer.url, Park(waiter, timeout=IDLE))
        assert answer["standings"] == [None]  # look again: nobody has left


@each_proxy
async def test_events_are_not_kept_back(proxy: type[LoadBalancer], start: Start) -> None:
    async with serving(Service(memory())) as url, raw_line(url) as line:
        balancer = await in_thread(start, proxy, [port_of(url)])
        async with (
            aiohttp.ClientSession() as session,
            session.get(f"{balancer.url}/v1/events") as answer,
        ):
            await answer.content.readuntil(b"\n\n")
            await line.enter(ticket("x"))
            assert b"event: granted" in await answer.content.readuntil(b"\n\n")


async def ask(url: str, act: Any) -> Any:
    """An act as a request of its own."""
    path = f"{url}/v1/{type(act).__name__.lower()}"
    async with (
        aiohttp.ClientSession() as session,
        session.post(path, data=msgspec.json.encode(act)) as answer,
    ):
        assert answer.status == 200, await answer.text()
        return await answer.json()


@asynccontextmanager
async def rude(requests: list[bytes]) -> AsyncIterator[int]:
    """A server that takes a request, and ends without an answer. Health checks are answered."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with_body = await reader.readuntil(b"\r\n\r\n")
        if with_body.startswith(b"GET"):
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
        else:
            requests.append(with_body)
        writer.close()

    server = await asyncio.start_server(answer, HOST, 0)
    async with server:
        yield server.sockets[0].getsockname()[1]


@each_proxy
async def test_a_request_that_was_sent_is_never_repeated(
    proxy: type[LoadBalancer], start: Start
) -> None:
    requests: list[bytes] = []
    async with rude(requests) as one, rude(requests) as two, aiohttp.ClientSession() as session:
        balancer = await in_thread(start, proxy, [one, two])
        async with session.post(f"{balancer.url}/v1/enter", data=b"{}") as answer:
            assert answer.status == 502
        assert len(requests) == 1


@each_proxy
async def test_a_replica_that_drains(
    proxy: type[LoadBalancer], start: Start, tmp_path: Path, redis_url: str
) -> None:
    """Its clients reach another one, and go on with the same tickets."""
    name = f"drained {uuid4()}"
    with (
        Replica(tmp_path / "a", redis_url) as a,
        Replica(tmp_path / "b", redis_url) as b,
    ):
        balancer = await in_thread(start, proxy, [a.port, b.port])
        by_id = {(await replica_of(each.url)): each for each in (a, b)}
        held = ticket(name)
        async with raw_line(balancer.url) as line:
            fence = (await line.enter(held)).fence
            first = by_id[line.hello.replica]
            stopping = asyncio.create_task(in_thread(first.stop))
            assert await line.closed() == GOING_AWAY
        await stopping

        async def elsewhere() -> bool:
            async with raw_line(balancer.url) as again:
                assert by_id[again.hello.replica] is not first
                standing = await again.enter(held)
                assert (standing.place, standing.fence) == (Place.ADMITTED, fence)
                return await again.leave(held)

        assert await elsewhere()


@each_proxy
async def test_a_new_line_avoids_a_replica_that_drains(
    proxy: type[LoadBalancer], start: Start
) -> None:
    """It still listens, and refuses new lines."""
    draining, other = Service(memory()), Service(memory())
    async with serving(draining) as one, serving(other) as two:
        balancer = await in_thread(start, proxy, [port_of(one), port_of(two)])
        await draining.drain()

        async def reached() -> bool:
            found = [await replica_of(balancer.url) for _ in range(4)]
            return found == [other.replica] * 4

        if proxy is Nginx:  # it tries the next one at once
            assert await reached()
        else:  # it has to look at /readyz first
            await soon(quietly(reached), "a line to the other replica")


def quietly(reached: Callable[[], Awaitable[bool]]) -> Callable[[], Awaitable[bool]]:
    async def ask() -> bool:
        with suppress(aiohttp.WSServerHandshakeError):
            return await reached()
        return False

    return ask


async def replica_of(url: str) -> str:
    async with raw_line(url) as line:
        return line.hello.replica


async def test_haproxy_takes_a_frozen_replica_out(
    start: Start, tmp_path: Path, redis_url: str
) -> None:
    """Its lines are cut, so that their clients don't wait for an answer that never comes."""
    with (
        Replica(tmp_path / "a", redis_url) as a,
        Replica(tmp_path / "b", redis_url) as b,
    ):
        balancer = await in_thread(start, Haproxy, [a.port, b.port], **{"inter 1s": "inter 100ms"})
        by_id = {(await replica_of(each.url)): each for each in (a, b)}
        async with raw_line(balancer.url) as line:
            frozen = by_id[line.hello.replica]
            frozen.freeze()
            await line.closed()
        async with raw_line(balancer.url) as again:
            assert by_id[again.hello.replica] is not frozen
        frozen.thaw()
