"""What all operations on queues share: requests, watches, and how expired tickets are taken out."""

from __future__ import annotations

import threading
from typing import Any

from kazoo.protocol.connection import CHANGED_EVENT

from fencelock.core.observed_expiry import time_left
from fencelock.core.ticket import Place, Standing
from fencelock.engines.zookeeper import requests
from fencelock.engines.zookeeper.admission import Blockers, Listing
from fencelock.engines.zookeeper.batch import existed, gone, value
from fencelock.engines.zookeeper.entry import Entry
from fencelock.engines.zookeeper.nodes import (
    HolderRecord,
    TicketData,
    escaped,
    release_signal,
    sequence,
)
from fencelock.engines.zookeeper.requests import Request
from fencelock.engines.zookeeper.transport import Transport
from fencelock.io.contract import IO

GONE = Standing(Place.GONE)


class Queues:
    """All queues below one path, the nodes that this client watches, and which tickets of ours wait for them.

    A watch on a ticket is not taken back: each node has one at most, and its next renewal uses it up.
    A watch on a release signal is taken back, because nothing else would use it up.
    """

    def __init__(self, transport: Transport, io: IO, root: str, acl: Any) -> None:
        self.transport = transport
        self.io = io
        self.root = root
        self.acl = acl
        transport.on_loss, transport.on_event = self.wake_all, self.happened
        self._mutex = threading.Lock()
        self.waiting: dict[str, set[Entry]] = {}
        """By the path of a node, the tickets that wait for it."""
        self.signals: dict[str, Entry] = {}
        """By the release signal of the ticket ahead, the ticket that holds once it is sent."""
        self.signals_releases = True
        """Whether a release sends a signal. Not where the root's owner lets nobody delete nodes below it."""

    def path_of(self, name: str) -> str:
        """The container of a name."""
        return f"{self.root}/{escaped(name)}"

    async def ask(self, until: float, *wanted: Request) -> list[Any]:
        """Send requests together and return their replies."""
        return (await self.transport.exchange(list(wanted), until)).replies

    async def read(self, parent: str, until: float) -> tuple[Listing, HolderRecord, Any] | None:
        """A queue, its holder record and its container's stat, up to date. None: it is not there."""
        _, children, container = await self.ask(
            until, requests.sync(parent), requests.children(parent), requests.get(parent)
        )
        if gone(children) or gone(container):
            return None
        data, stat = value(container)
        return Listing.of(value(children)), HolderRecord.unpack(data), stat

    async def make_nodes(self, paths: list[str], until: float) -> None:
        """Create empty nodes that stay, unless they are there."""
        wanted = [requests.create(path, b"", self.acl) for path in paths]
        for reply in await self.ask(until, *wanted):
            if not existed(reply):
                value(reply)

    async def make_root(self, until: float) -> None:
        """Create the node below which all queues are, and those above it."""
        parts = self.root.split("/")
        await self.make_nodes(["/".join(parts[:end]) for end in range(2, len(parts) + 1)], until)

    # --- which nodes our tickets wait for

    def wait_for(self, entry: Entry, blockers: Blockers) -> None:
        """Remember what a ticket waits for from now on."""
        if entry.blockers.nodes == blockers.nodes:
            entry.blockers = blockers
            return
        self.forget(entry)
        entry.blockers, kept = blockers, set(blockers.nodes)
        entry.alive = {node: until for node, until in entry.alive.items() if node in kept}
        entry.changed.intersection_update(kept)
        with self._mutex:
            for node in blockers.nodes:
                self.waiting.setdefault(entry.path_of(node), set()).add(entry)

    def forget(self, entry: Entry) -> None:
        """The ticket waits for nothing any more."""
        signal = self._signal_for(entry)
        if self.signals.get(signal) is entry:
            self.signals.pop(signal, None)
            self.transport.send(requests.unwatch(signal))
        for path in map(entry.path_of, entry.blockers.nodes):
            with self._mutex:
                others = self.waiting.get(path, set())
                others.discard(entry)
                if not others:
                    self.waiting.pop(path, None)

    def read_blockers(self, entry: Entry, nodes: tuple[str, ...], *, watch: bool) -> list[Request]:
        """Requests that read some of a ticket's blockers and, with `watch`, watch for their next change."""
        wanted = [requests.get(entry.path_of(node), watch=watch) for node in nodes]
        if not watch or not nodes:
            return wanted
        if entry.event is None:
            entry.event = self.io.event()
        entry.changed.difference_update(nodes)
        signal = self._signal_for(entry)
        if not entry.share.group and self.signals.get(signal) is not entry:
            self.signals[signal] = entry
            wanted.append(requests.exists(signal, watch=True))
        return wanted

    def _signal_for(self, entry: Entry) -> str:
        """The release signal of the ticket ahead."""
        return release_signal(self.root, entry.ahead or "")

    # --- called in the connection's thread

    def happened(self, kind: int, path: str) -> None:
        """Something happened to a node that is watched."""
        signalled = self.signals.pop(path, None)
        if signalled is not None:
            signalled.released = True
            signalled.wake()
        for entry in list(self.waiting.get(path, ())):
            if kind == CHANGED_EVENT:
                entry.changed.add(path[len(entry.parent) + 1 :])
            else:
                entry.gone = True
            entry.wake()

    def wake_all(self) -> None:
        """The connection was lost, and all watches with it."""
        self.signals.clear()
        for entries in list(self.waiting.values()):
            for entry in list(entries):
                entry.gone = True
                entry.wake()

    # --- which blockers have expired

    def saw(self, entry: Entry, node: str, reply: Any) -> TicketData:
        """Remember that a blocker was there just now."""
        now = self.io.now()
        data, left = self._left(reply, now)
        entry.alive[node] = now + min(left, data.ttl)
        return data

    def is_dead(self, reply: Any) -> bool:
        """Whether a ticket that was read just now has not been renewed for its ttl."""
        return self._left(reply, self.io.now())[1] <= 0

    def _left(self, reply: Any, now: float) -> tuple[TicketData, float]:
        data, stat = TicketData.unpack(reply[0]), reply[1]
        return data, time_left(data.ttl, self.transport.unchanged_since(stat.mzxid, now), now)

    def expired(self, entry: Entry) -> list[str]:
        """The blockers that have not been renewed for their ttl."""
        now = self.io.now()
        return [node for node in entry.blockers.nodes if entry.alive.get(node, now + 1) <= now]

    def standing(self, entry: Entry) -> Standing:
        """How a ticket stands behind the blockers that were seen."""
        left = min(entry.alive.values()) - self.io.now()
        return Standing(Place.WAITING, entry.fence, recheck=max(0.0, left))

    async def expire(
        self, parent: str, listing: Listing, node: str, version: int, until: float
    ) -> set[str]:
        """Take out a ticket that has expired and the dead right ahead of it, unless they were renewed since.

        A process that dies leaves a whole row. It is read in steps, each twice as long as the last, so that
        there are few. It ends at the first ticket that lives, which looks after the tickets ahead of it.
        """
        versions = {node: version}
        ahead = listing.nodes[: listing.nodes.index(node)][::-1]
        start, size = 0, 1
        while some := ahead[start : start + size]:
            replies = await self.ask(until, *(requests.get(f"{parent}/{node}") for node in some))
            for node, reply in zip(some, replies, strict=True):
                if gone(reply) or not self.is_dead(value(reply)):
                    ahead = []
                    break
                versions[node] = reply[1].version
            start, size = start + size, 2 * size
        # The last ticket first: the ticket ahead of it, still there, proves that it does not hold.
        await self.ask(until, *(removal(parent, listing, *one) for one in versions.items()))
        return set(versions)


def removal(
    parent: str, listing: Listing, node: str, version: int = requests.ANY_VERSION
) -> Request:
    """Take out another client's ticket, with a version only if it has not been renewed since it was read."""
    path, place = f"{parent}/{node}", listing.nodes.index(node)
    if listing.share(node).group:
        return requests.delete_sharing(parent, node, listing.downgrade_of(node), version)
    if place == 0:
        record = HolderRecord(sequence(node), abandoned=True)
        return requests.depart(path, parent, record.pack(), version)
    return requests.withdraw(path, f"{parent}/{listing.nodes[place - 1]}", version)
