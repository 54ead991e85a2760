"""Looking at a lock from outside, past Fencelock's own client."""

from __future__ import annotations

import asyncio
from typing import Any, NamedTuple

import fencelock
from fencelock.engines.redis.keys import keys_of, tag_of
from tests.conformance.cells import Cell
from tests.servers import RedisServer
from tests.waiting import soon

_READ = """
local _, last, abandoned, keep, crowded, holder, fence, expires = cmsgpack.unpack(redis.call('GET', KEYS[1]))
return {last, holder or '', expires or 0}
"""


class Record(NamedTuple):
    """What Redis remembers of a name, besides the waiters."""

    newest_fence: int
    holder: str
    expires: int


def record(server: RedisServer, name: str) -> Record:
    """The record of a name, which must be there."""
    return Record(*server.execute("EVAL", _READ, 1, keys_of(tag_of(name))[0]))


def tickets(server: RedisServer, name: str) -> list[str]:
    """The ids of the holder and of the waiters, in the order of the queue."""
    key, queue, *_ = keys_of(tag_of(name))
    holder = record(server, name).holder if server.execute("EXISTS", key) else ""
    waiting = [str(id) for id in server.execute("ZRANGE", queue, 0, -1)]
    return [holder, *waiting] if holder else waiting


def links(server: RedisServer) -> list[str]:
    """The connections that Fencelock has to a server, by their number there."""
    return [str(link["id"]) for link in link_list(server)]


def link_list(server: RedisServer) -> list[dict[str, Any]]:
    """What the server knows about each of Fencelock's connections."""
    with server.client() as client:
        return [dict(link) for link in client.client_list() if link["name"] == "fencelock"]


async def connected(cell: Cell, client: Any) -> None:
    """Have the client connect, so that the next request is the one a test is about."""
    lease = await cell.run(lambda: client.lock(f"{cell.name}:before").acquire())
    await cell.run(lease.release)


async def held(lease: Any) -> None:
    await soon(lambda: lease.state is fencelock.LeaseState.HELD, "the lease to be held")


async def renewed(cell: Cell, lease: Any, timeout: float = 10.0) -> None:
    """Wait until the lease can be renewed again."""

    async def works() -> bool:
        try:
            await cell.run(lease.renew)
        except fencelock.EngineError:
            return False
        return True

    await soon(works, "the lease to be renewed", timeout)


async def lost(lease: Any) -> None:
    await soon(lambda: lease.state is fencelock.LeaseState.LOST, "the lease to be lost")


async def empty(server: RedisServer, name: str) -> None:
    """Wait until the queue is empty."""
    await soon(lambda: not tickets(server, name), "the queue to be empty")


async def next_done(waiters: list[asyncio.Task[Any]]) -> asyncio.Task[Any]:
    """Wait for the one that is woken, and take it out of the list."""
    woken: list[asyncio.Task[Any]] = await soon(
        lambda: [waiter for waiter in waiters if waiter.done()], "the next one"
    )
    assert len(woken) == 1
    waiters.remove(woken[0])
    return woken[0]
