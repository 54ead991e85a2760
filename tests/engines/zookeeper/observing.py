"""Looking at a lock from outside, past Fencelock's own client."""

from __future__ import annotations

import math
import struct
from typing import Any, Self

from kazoo.client import KazooClient
from kazoo.exceptions import NoNodeError

import fencelock
from fencelock.engines.zookeeper.nodes import escaped, in_order
from tests.conformance.cells import Cell
from tests.proxy import ReplyCounter
from tests.servers_zookeeper import Ensemble
from tests.waiting import soon

Trips = list[list[str]]
"""For each round trip, the kinds of its requests."""


class Witness:
    """kazoo's own client, which knows nothing of Fencelock."""

    def __init__(self, ensemble: Ensemble) -> None:
        self.ensemble = ensemble
        self.client = KazooClient(ensemble.addresses)

    def __enter__(self) -> Self:
        self.client.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.client.stop()
        self.client.close()

    def tickets(self, name: str, root: str = "/tests") -> list[str]:
        """The nodes in a name's queue, first come first."""
        path = f"{root}/fencelock/{escaped(name)}"
        self.client.sync("/")
        try:
            return in_order(self.client.get_children(path))
        except NoNodeError:
            return []

    def fences(self, name: str, root: str = "/tests") -> list[int]:
        path = f"{root}/fencelock/{escaped(name)}"
        return [self.client.get(f"{path}/{node}")[1].czxid for node in self.tickets(name, root)]

    def end_session(self, client: Any) -> None:
        """Make the servers end a client's session, as if they had not heard of it for long."""
        session = client._context.engine._transport._connection.client.client_id
        twin = KazooClient(self.ensemble.addresses, client_id=session)
        twin.start()
        twin.stop()
        twin.close()


def total(ensemble: Ensemble, figure: str) -> int:
    """What all nodes count together."""
    return sum(node.figures()[figure] for node in ensemble.nodes)


def server_state(ensemble: Ensemble) -> dict[str, int]:
    """What clients may leave behind: tickets, sessions, watches."""
    figures = ensemble.leader().figures()
    return {
        "tickets": figures["ephemerals_count"],
        "sessions": figures["global_sessions"],
        "watches": total(ensemble, "watch_count"),
    }


def replies() -> ReplyCounter:
    """Count the replies in ZooKeeper's stream, without the handshake, pings and watch events."""
    inbox = bytearray()
    greeted = False

    def count(piece: bytes) -> int:
        nonlocal greeted
        inbox.extend(piece)
        found = 0
        while len(inbox) >= 4 and len(inbox) >= 4 + (size := struct.unpack_from("!i", inbox)[0]):
            xid = struct.unpack_from("!i", inbox, 4)[0]
            found += greeted and xid > 0
            greeted = True
            del inbox[: 4 + size]
        return found

    return count


async def connected(cell: Cell, client: Any) -> None:
    """Connect a client, and create the name's container."""
    lease = await cell.run(lambda: client.lock(cell.name).acquire())
    await cell.run(lease.release)


async def parked(client: Any, count: int = 1) -> None:
    """Wait until so many of a client's tickets wait and watch the ticket ahead."""

    def waiting() -> list[Any]:
        known = list(client._context.engine._entries.values())
        return [entry for entry in known if not entry.holds and math.isfinite(entry.alive_until)]

    await soon(lambda: len(waiting()) >= count, f"{count} parked tickets")


async def lost(lease: Any) -> None:
    await soon(lambda: lease.state is fencelock.LeaseState.LOST, "the lease to be lost")
