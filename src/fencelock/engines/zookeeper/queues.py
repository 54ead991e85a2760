"""What all operations on queues share, and how expired tickets are taken out."""

from __future__ import annotations

from typing import Any

from kazoo.exceptions import NodeExistsError

from fencelock.core.ticket import Place, Standing
from fencelock.engines.zookeeper import requests
from fencelock.engines.zookeeper.admission import Listing
from fencelock.engines.zookeeper.nodes import HolderRecord, escaped, sequence
from fencelock.engines.zookeeper.replies import gone, value
from fencelock.engines.zookeeper.requests import Request
from fencelock.engines.zookeeper.transport import Transport
from fencelock.engines.zookeeper.watches import Watches
from fencelock.io.contract import IO

GONE = Standing(Place.GONE)


class Queues:
    """All queues below one path."""

    def __init__(self, transport: Transport, io: IO, root: str, acl: Any) -> None:
        self.transport = transport
        self.io = io
        self.root = root
        self.acl = acl
        self.watches = Watches(io, root, transport)
        self.signals_releases = True
        """Whether a release sends a signal. Not where the root's owner lets nobody delete nodes below it."""

    def path_of(self, name: str) -> str:
        """The container of a name."""
        return f"{self.root}/{escaped(name)}"

    async def ask(self, until: float, *wanted: Request) -> list[Any]:
        """Send requests together and return their replies."""
        return (await self.transport.exchange(list(wanted), until)).replies

    async def make_nodes(self, paths: list[str], until: float) -> None:
        """Create empty nodes that stay, unless they are there."""
        wanted = [requests.create(path, b"", self.acl) for path in paths]
        for reply in await self.ask(until, *wanted):
            if not isinstance(reply, NodeExistsError):
                value(reply)

    async def expire(
        self, parent: str, listing: Listing, node: str, version: int, until: float
    ) -> set[str]:
        """Take out a ticket that has expired and the dead right ahead of it, unless they were renewed since.

        A process that dies leaves a whole row. It is read in steps, each twice as long as the last, so that
        there are few. It ends at the first ticket that lives, which looks after the tickets ahead of it.
        """
        dead = [(node, version)]
        end, size = listing.nodes.index(node), 1
        while end > 0:
            some = listing.nodes[max(0, end - size) : end]
            found = await self._dead_among(parent, some, until)
            dead += found
            if len(found) < len(some):
                break
            end, size = end - len(some), 2 * size
        # The last ticket first: the ticket ahead of it, still there, proves that it does not hold.
        await self.ask(until, *(_expiry(parent, listing, *one) for one in dead))
        return {node for node, _ in dead}

    async def _dead_among(
        self, parent: str, nodes: list[str], until: float
    ) -> list[tuple[str, int]]:
        """The tickets at the end of a row that have expired, the last one first, and their versions."""
        replies = await self.ask(until, *(requests.get(f"{parent}/{node}") for node in nodes))
        found: list[tuple[str, int]] = []
        for node, reply in zip(reversed(nodes), reversed(replies), strict=True):
            if gone(reply) or not self.watches.is_dead(value(reply)):
                break
            found.append((node, reply[1].version))
        return found


def _expiry(parent: str, listing: Listing, node: str, version: int) -> Request:
    """Take out another client's ticket, unless it has been renewed since it was read."""
    path, place = f"{parent}/{node}", listing.nodes.index(node)
    if listing.share(node).group:
        return requests.delete_sharing(parent, node, listing.downgrade_of(node), version)
    if place == 0:
        record = HolderRecord(sequence(node), abandoned=True)
        return requests.depart(path, parent, record.pack(), version)
    return requests.withdraw(path, f"{parent}/{listing.nodes[place - 1]}", version)
