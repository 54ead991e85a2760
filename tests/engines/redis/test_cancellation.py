"""Stopped in the middle: cancelled tasks, interrupted threads, forked children."""

import asyncio
import os
import signal
from collections.abc import Callable
from typing import Any

import psutil
import pytest

import fencelock
from tests.child import Child
from tests.engines.redis.impostors import Impostor, silence
from tests.engines.redis.server_state import empty, links, tickets
from tests.proxy import TcpProxy
from tests.servers import HOST, RedisFactory, RedisServer
from tests.waiting import soon, within


@pytest.fixture
def server(redis_server: RedisFactory) -> RedisServer:
    return redis_server()


@pytest.fixture
def proxy(server: RedisServer, tcp_proxy: Callable[[int], TcpProxy]) -> TcpProxy:
    return tcp_proxy(server.port)


def connections() -> int:
    """Both ends of each connection are in this process. An end that the other one has left does not count."""
    ends = psutil.Process().net_connections("tcp")
    return sum(end.status == psutil.CONN_ESTABLISHED for end in ends)


async def cancelled(task: asyncio.Task[Any]) -> None:
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await within(task)


async def test_cancelled_while_connecting() -> None:
    before = asyncio.all_tasks()
    with Impostor(silence) as impostor:
        open_before = connections()
        client = fencelock.AsyncClient(impostor.url)
        first = asyncio.create_task(client.lock("x").acquire())
        second = asyncio.create_task(client.lock("y").acquire())
        await soon(lambda: connections() > open_before, "the connection")
        first.cancel()
        with pytest.raises(fencelock.EngineError, match="can't connect"):
            await second  # they share an attempt to connect, but not the cancellation
        with pytest.raises(asyncio.CancelledError):
            await within(first)
        await client.close()
        await soon(lambda: connections() <= open_before, "the connections to be closed")
    await soon(lambda: asyncio.all_tasks() <= before, "no task to be left")


async def test_a_caller_in_a_hurry_does_not_wait_for_a_slow_connection(proxy: TcpProxy) -> None:
    """An attempt to connect is shared, but each caller has its own timeout."""
    async with fencelock.AsyncClient(f"redis://{HOST}:{proxy.port}") as client:
        proxy.black_hole()
        patient = asyncio.create_task(client.lock("x").acquire())
        await soon(lambda: proxy.connections, "the connection")
        start = asyncio.get_running_loop().time()
        with pytest.raises(fencelock.EngineError, match="can't connect"):
            await client.lock("y").acquire(timeout=0.3)
        hurry = asyncio.get_running_loop().time() - start
        assert not patient.done()
        with pytest.raises(fencelock.EngineError, match="can't connect"):
            await patient
        assert hurry < asyncio.get_running_loop().time() - start
        proxy.heal()


async def test_cancelled_with_a_request_under_way(server: RedisServer) -> None:
    async with fencelock.AsyncClient(server.url) as client:
        held = await client.lock("held").acquire()
        server.freeze()
        acquiring = asyncio.create_task(client.lock("x").acquire())
        inspecting = asyncio.create_task(client.inspect("held"))
        await asyncio.sleep(0.05)
        acquiring.cancel()
        await asyncio.sleep(0.05)
        server.thaw()
        with pytest.raises(asyncio.CancelledError):
            await acquiring
        assert len((await inspecting).holders) == 1, "others on the same connection don't notice"
        await empty(server, "x")
        await held.renew()
        assert len(links(server)) == 1
        # The sweeper stays for a while: it can't know that the request will not arrive once more.
        ours = {asyncio.current_task(), *_named("fencelock-keeper"), *_named("fencelock-sweeper")}
        await soon(lambda: asyncio.all_tasks() <= ours, "no task to be left")


def _named(name: str) -> list[asyncio.Task[Any]]:
    return [task for task in asyncio.all_tasks() if task.get_name() == name]


async def test_cancelled_twice_with_a_server_that_does_not_answer(server: RedisServer) -> None:
    async with fencelock.AsyncClient(server.url) as client:
        await (await client.lock("before").acquire()).release()
        server.freeze()
        acquiring = asyncio.create_task(client.lock("x").acquire())
        await asyncio.sleep(0.05)
        acquiring.cancel()
        await asyncio.sleep(0.05)
        assert not acquiring.done(), "it takes back its ticket first"
        await cancelled(acquiring)
        server.thaw()
        await empty(server, "x")
        assert server.execute("EXISTS", "fencelock:{x}"), "the request arrived in the end"


async def test_cancelled_while_parked(server: RedisServer) -> None:
    async with fencelock.AsyncClient(server.url) as client:
        holder = await client.lock("x").acquire()
        waiters = [asyncio.create_task(client.lock("x").acquire()) for _ in range(50)]
        await soon(lambda: len(tickets(server, "x")) == 51, "50 waiters")
        survivor = waiters.pop(25)
        for waiter in waiters:
            waiter.cancel()
        await asyncio.gather(*waiters, return_exceptions=True)
        assert len(tickets(server, "x")) == 2
        await holder.release()
        lease = await within(survivor)
        assert tickets(server, "x") == [lease.id]
        assert len(links(server)) == 1
        (link,) = [client._context.engine._topology.only._link]  # type: ignore[attr-defined]
        await lease.release()
        assert (link._waiters, link._wake_ups) == ({}, {}), "nothing is kept"
        await soon(lambda: not link._requests, "the last answer")  # the keeper may just be asking


async def test_interrupted_with_a_request_under_way(server: RedisServer) -> None:
    with Child("sync", server.url) as child:
        assert "fence" in child.call("acquire", name="before")
        server.freeze()
        child.send("acquire", name="x", ttl=60)
        process = psutil.Process(child.pid)
        await soon(lambda: _waits_for_an_answer(process, server.port), "the request")
        child.interrupt()
        answer = await asyncio.wait_for(asyncio.to_thread(child.receive), 20)
        assert answer["error"] == "KeyboardInterrupt"
        server.thaw()
        await empty(server, "x")
        assert child.call("acquire", name="x", timeout=5)["state"] == "held"


def _waits_for_an_answer(process: psutil.Process, port: int) -> bool:
    """Whether bytes that a process sent lie unread in the server's queue."""
    with open("/proc/net/tcp") as table:
        for line in table.readlines()[1:]:
            fields = line.split()
            local_port = int(fields[1].split(":")[1], 16)
            unread = int(fields[4].split(":")[1], 16)
            if local_port == port and unread:
                return process.is_running()
    return False


async def test_interrupted_before_the_connection_stands() -> None:
    with Impostor(silence) as impostor, Child("sync", impostor.url) as child:
        child.send("acquire", name="x")
        process = psutil.Process(child.pid)
        await soon(lambda: process.net_connections("tcp"), "the connection")
        os.kill(child.pid, signal.SIGINT)
        answer = await asyncio.wait_for(asyncio.to_thread(child.receive), 20)
        assert answer["error"] == "KeyboardInterrupt"


@pytest.mark.parametrize("face", ["sync", "async"])
async def test_a_forked_child_does_no_harm_to_the_connections(
    server: RedisServer, face: str
) -> None:
    with Child(face, server.url) as parent:
        fence = parent.call("acquire", name="x")["fence"]
        before = links(server)
        seen = parent.call("fork", name="x")
        assert all("can't be used in its child" in refusal for refusal in seen["lease"])
        assert seen["held"]
        assert parent.call("release")["fence"] == fence
        assert links(server) == before, "the same connections as before"
        assert tickets(server, "x") == []


async def test_waiters_are_woken_when_their_client_is_closed(server: RedisServer) -> None:
    """Also those in other threads, which sleep in their own connections."""
    other = fencelock.Client(server.url)
    client = fencelock.Client(server.url)
    lease = await asyncio.to_thread(other.lock("x").acquire)
    waiters = [
        asyncio.create_task(asyncio.to_thread(client.lock("x", ttl=600).acquire)) for _ in range(3)
    ]
    await soon(lambda: len(tickets(server, "x")) == 4, "the waiters")
    await asyncio.to_thread(client.close)
    for waiter in waiters:
        with pytest.raises(fencelock.FencelockError, match="closed"):
            await within(waiter)
    await asyncio.to_thread(lease.release)
    await empty(server, "x")
    await asyncio.to_thread(other.close)
    await soon(lambda: not links(server), "every connection to be closed")
