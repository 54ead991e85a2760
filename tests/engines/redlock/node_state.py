"""Looking at the nodes from outside, past Fencelock's own client."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

import fencelock
from fencelock.engines.redlock.scripts import keys_of
from tests import counting
from tests.conformance.cells import Cell
from tests.servers import RedisServer
from tests.waiting import soon

_HOLDER = "local held = redis.call('GET', KEYS[1]) return held and (cmsgpack.unpack(held)) or ''"
_FENCE = "local trace = redis.call('GET', KEYS[1]) return trace and (cmsgpack.unpack(trace)) or 0"


def holder(node: RedisServer, name: str) -> str:
    """The id of the ticket that has the lock at this node, or an empty string."""
    return str(node.execute("EVAL", _HOLDER, 1, keys_of(name)[1])).partition(".")[0]


def holders(nodes: Sequence[RedisServer], name: str) -> list[str]:
    return [holder(node, name) for node in nodes]


def fence(node: RedisServer, name: str) -> int:
    """Where the fence of a name stands at this node."""
    return int(node.execute("EVAL", _FENCE, 1, keys_of(name)[2]))


def waiters(node: RedisServer, name: str) -> list[str]:
    """The ids of the waiters that this node would wake, in order."""
    return [entry.split()[1] for entry in node.execute("ZRANGE", keys_of(name)[3], 0, -1)]


def listening(node: RedisServer, name: str) -> int:
    """How many connections listen for what this node would tell its waiters."""
    entries = node.execute("ZRANGE", keys_of(name)[3], 0, -1)
    channels = [entry.split()[0] for entry in entries]
    with node.client() as client:
        return sum(int(count) for _, count in client.pubsub_numsub(*channels))


async def nothing_left(nodes: Sequence[RedisServer], name: str) -> None:
    """Wait until no node knows of a holder or a waiter. It must happen before the ttl is over."""

    def left() -> list[tuple[str, list[str]]]:
        return [(holder(node, name), waiters(node, name)) for node in nodes]

    try:
        await soon(lambda: left() == [("", [])] * len(nodes), "nothing to be left behind")
    except AssertionError as error:
        error.add_note(f"left: {left()}")
        raise


def links(node: RedisServer) -> int:
    """How many connections Fencelock has to a node."""
    with node.client() as client:
        return sum(link["name"] == "fencelock" for link in client.client_list())


@contextmanager
def counted(nodes: Sequence[RedisServer]) -> Iterator[list[Counter[str]]]:
    """Count the commands that each node carries out, those that scripts call among them."""
    with ExitStack() as counters:
        yield [counters.enter_context(counting.commands(node)) for node in nodes]


async def connected(cell: Cell, client: Any) -> None:
    """Have the client connect and the nodes vote, so that what follows is what a test is about."""
    lease = await cell.run(lambda: client.lock(f"{cell.name}:before").acquire())
    await cell.run(lease.release)
    await cell.run(lambda: client.inspect(cell.name))  # which waits for all of them


async def renewed(cell: Cell, lease: Any) -> None:
    """Wait until the lease can be renewed: the first request may meet connections that were cut."""

    async def works() -> bool:
        try:
            await cell.run(lease.renew)
        except fencelock.EngineError:
            return False
        return True

    await soon(works, "the lease to be renewed")


async def gone(lease: Any, timeout: float = 10.0) -> None:
    await soon(lambda: lease.state is fencelock.LeaseState.LOST, "the lease to be lost", timeout)
