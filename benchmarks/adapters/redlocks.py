"""Redlock: the limit, and the rivals. None of them has a fence, and none renews by itself.

A `url` here is ours, `redlock://host:port,…`; the others get its parts.
"""

from __future__ import annotations

import asyncio
import select
from typing import Any, Self

import aioredlock
import pottery
import redis
import redlock

from benchmarks.adapters.contract import AsyncTurns, Turns
from benchmarks.adapters.raw_redis import AsyncRawPair, RawConnection, pack

TTL_SECONDS = 30


def servers(url: str) -> list[str]:
    """The nodes, as `redis://` URLs."""
    return [f"redis://{address}" for address in url.removeprefix("redlock://").split(",")]


class SendFiveReadFive(Turns):
    """SET NX PX to all, read all; DEL to all, read all: bare commands on sockets, and one poll."""

    label = "limit: send to all, read all"

    def __init__(self, url: str, name: str, seat: int = 0, seats: int = 1) -> None:
        self._set = pack("SET", name, "me", "NX", "PX", TTL_SECONDS * 1000)
        self._delete = pack("DEL", name)
        self._nodes = {}
        self._poll = select.poll()
        for server in servers(url):
            connection = RawConnection(server)
            self._nodes[connection.socket.fileno()] = connection
            self._poll.register(connection.socket, select.POLLIN)

    def acquire(self) -> None:
        self._ask(self._set, b"+OK\r\n")

    def release(self) -> None:
        self._ask(self._delete, b":1\r\n")

    def _ask(self, request: bytes, answer: bytes) -> None:
        for connection in self._nodes.values():
            connection.socket.sendall(request)
        waiting = len(self._nodes)
        while waiting:
            for number, _ in self._poll.poll():
                assert self._nodes[number].read(len(answer)) == answer
                waiting -= 1

    def close(self) -> None:
        for connection in self._nodes.values():
            connection.socket.close()


class Pottery(Turns):
    """One lock object for all turns."""

    label = "pottery"

    def __init__(self, url: str, name: str, seat: int = 0, seats: int = 1) -> None:
        masters = {
            redis.Redis.from_url(server, socket_timeout=1, socket_connect_timeout=1)
            for server in servers(url)
        }
        self._lock = pottery.Redlock(key=name, masters=masters, auto_release_time=TTL_SECONDS)

    def acquire(self) -> None:
        assert self._lock.acquire()

    def release(self) -> None:
        self._lock.release()

    def close(self) -> None:
        for master in self._lock.masters:
            master.close()


class RedlockNg(Turns):
    """As its documentation shows it; a node may take 0.1 s, its default."""

    label = "redlock-ng"

    def __init__(self, url: str, name: str, seat: int = 0, seats: int = 1) -> None:
        self._locks = redlock.Redlock(servers(url))
        self._name = name
        self._held: Any = None

    def acquire(self) -> None:
        self._held = self._locks.acquire(self._name, ttl=TTL_SECONDS * 1000)
        assert self._held

    def release(self) -> None:
        self._locks.release(self._held)

    def close(self) -> None:
        for instance in self._locks.client.instances:
            instance.close()


class AsyncSendFiveReadFive(AsyncTurns):
    """The same as `SendFiveReadFive` on bare asyncio protocols."""

    label = "limit: send to all, read all"

    def __init__(self, pairs: list[AsyncRawPair]) -> None:
        self._pairs = pairs

    @classmethod
    async def connect(cls, url: str, name: str) -> Self:
        return cls([await AsyncRawPair.connect(server, name) for server in servers(url)])

    async def acquire(self) -> None:
        for answer in [pair.ask_to_set() for pair in self._pairs]:
            await answer

    async def release(self) -> None:
        for answer in [pair.ask_to_delete() for pair in self._pairs]:
            await answer

    async def close(self) -> None:
        for pair in self._pairs:
            await pair.close()


class AsyncRedlockNg(AsyncTurns):
    label = "redlock-ng, asyncio"

    def __init__(self, locks: Any, name: str) -> None:
        self._locks = locks
        self._name = name
        self._held: Any = None

    @classmethod
    async def connect(cls, url: str, name: str) -> Self:
        return cls(redlock.AsyncRedlock(servers(url)), name)

    async def acquire(self) -> None:
        self._held = await self._locks.acquire(self._name, ttl=TTL_SECONDS * 1000)
        assert self._held

    async def release(self) -> None:
        await self._locks.release(self._held)

    async def close(self) -> None:
        for instance in self._locks.client.instances:
            await instance.aclose()


class Aioredlock(AsyncTurns):
    label = "aioredlock"

    def __init__(self, locks: Any, name: str) -> None:
        self._locks = locks
        self._name = name
        self._held: Any = None

    @classmethod
    async def connect(cls, url: str, name: str) -> Self:
        return cls(aioredlock.Aioredlock(servers(url)), name)

    async def acquire(self) -> None:
        self._held = await self._locks.lock(self._name, lock_timeout=TTL_SECONDS)

    async def release(self) -> None:
        await self._locks.unlock(self._held)

    async def close(self) -> None:
        await asyncio.wait_for(self._locks.destroy(), 5)
