"""Which of our tickets wait for which nodes, and until when those nodes can't have expired."""

from __future__ import annotations

import threading
from typing import Any

from kazoo.protocol.states import EventType

from fencelock.core.observed_expiry import time_left
from fencelock.core.ticket import Place, Standing
from fencelock.engines.zookeeper import requests
from fencelock.engines.zookeeper.admission import Blockers
from fencelock.engines.zookeeper.entry import Entry
from fencelock.engines.zookeeper.nodes import TicketData, release_signal
from fencelock.engines.zookeeper.requests import Request
from fencelock.engines.zookeeper.transport import Transport
from fencelock.io.contract import IO


class Watches:
    """All nodes that this client watches, and the tickets of ours that wait for each.

    A watch on a ticket is not taken back: each node has one at most, and its next renewal uses it up.
    A watch on a release signal is taken back, because nothing else would use it up.
    """

    def __init__(self, io: IO, root: str, transport: Transport) -> None:
        self._io = io
        self._root = root
        self._transport = transport
        transport.on_loss, transport.on_created = self.wake_all, self.signalled
        self._mutex = threading.Lock()
        self.waiting: dict[str, set[Entry]] = {}
        """By the path of a node, the tickets that wait for it."""
        self.signals: dict[str, Entry] = {}
        """By the release signal of the ticket ahead, the ticket that holds once it is sent."""

    def wait_for(self, entry: Entry, blockers: Blockers) -> None:
        """Remember what a ticket waits for from now on."""
        old, entry.blockers = entry.blockers.nodes, blockers
        if old == blockers.nodes:
            return
        self._unwatch_signal(entry)
        kept = set(blockers.nodes)
        self._drop(entry, [node for node in old if node not in kept])
        entry.alive = {node: until for node, until in entry.alive.items() if node in kept}
        entry.changed.intersection_update(kept)
        with self._mutex:
            for node in blockers.nodes:
                self.waiting.setdefault(entry.path_of(node), set()).add(entry)

    def forget(self, entry: Entry) -> None:
        """The ticket waits for nothing any more."""
        self._unwatch_signal(entry)
        self._drop(entry, list(entry.blockers.nodes))

    def watch(self, entry: Entry, nodes: tuple[str, ...]) -> list[Request]:
        """The requests that read some of a ticket's blockers, and watch for their renewal and their end."""
        if nodes and entry.event is None:
            entry.event = self._io.event()
        entry.changed.difference_update(nodes)
        wanted = [requests.get(entry.path_of(node), self._happened) for node in nodes]
        if nodes and entry.signal is None and not entry.share.group:
            entry.signal = release_signal(self._root, nodes[-1])
            self.signals[entry.signal] = entry
            wanted.append(requests.watch_creation(entry.signal))
        return wanted

    # --- called in the connection's thread

    def signalled(self, path: str) -> None:
        """A release signal was sent: the ticket that waits for it holds."""
        entry = self.signals.pop(path, None)
        if entry is not None:
            entry.signal, entry.released = None, True
            entry.wake()

    def wake_all(self) -> None:
        """The connection was lost, and all watches with it."""
        for entry in list(self.signals.values()):
            entry.signal = None
        self.signals.clear()
        for entries in list(self.waiting.values()):
            for entry in list(entries):
                entry.gone = True
                entry.wake()

    def _happened(self, event: Any) -> None:
        if event.path is None:
            self.wake_all()
            return
        for entry in list(self.waiting.get(event.path, ())):
            if event.type == EventType.CHANGED:
                entry.changed.add(event.path[len(entry.parent) + 1 :])
            else:
                entry.gone = True
            entry.wake()

    # --- which blockers have expired

    def saw(self, entry: Entry, node: str, reply: Any) -> TicketData:
        """Remember that a blocker was there just now."""
        now = self._io.now()
        data, left = self._left(reply, now)
        entry.alive[node] = now + min(left, data.ttl)
        return data

    def is_dead(self, reply: Any) -> bool:
        """Whether a ticket that was read just now has not been renewed for its ttl."""
        return self._left(reply, self._io.now())[1] <= 0

    def _left(self, reply: Any, now: float) -> tuple[TicketData, float]:
        data, stat = TicketData.unpack(reply[0]), reply[1]
        return data, time_left(data.ttl, self._transport.unchanged_since(stat.mzxid, now), now)

    def expired(self, entry: Entry) -> list[str]:
        """The blockers that have not been renewed for their ttl."""
        now = self._io.now()
        return [node for node in entry.blockers.nodes if entry.alive.get(node, now + 1) <= now]

    def standing(self, entry: Entry) -> Standing:
        """How a ticket stands behind the blockers that were seen."""
        left = min(entry.alive.values()) - self._io.now()
        return Standing(Place.WAITING, entry.fence, recheck=max(0.0, left))

    def _unwatch_signal(self, entry: Entry) -> None:
        path, entry.signal = entry.signal, None
        if path is not None and self.signals.get(path) is entry:
            self.signals.pop(path, None)
            self._transport.send(requests.unwatch_creation(path))

    def _drop(self, entry: Entry, nodes: list[str]) -> None:
        for path in map(entry.path_of, nodes):
            with self._mutex:
                others = self.waiting.get(path, set())
                others.discard(entry)
                if not others:
                    self.waiting.pop(path, None)
