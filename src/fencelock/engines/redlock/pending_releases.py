"""Releases that a node has not confirmed: sent again until it does, or until the lock has expired there.

A majority decides that a lock was released, and nobody waits for the other nodes. That a release was sent
to them does not mean that they received it: a link that breaks loses what was under way.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any, NamedTuple

from fencelock.core.backoff import Backoff
from fencelock.core.errors import FencelockError
from fencelock.core.ticket import Departure, Ticket
from fencelock.engines.failure import RequestFailed
from fencelock.engines.redlock.asking import Request, ask
from fencelock.engines.redlock.node_links import NodeLinks
from fencelock.engines.redlock.nodes import Nodes
from fencelock.engines.redlock.requests import release
from fencelock.engines.redlock.ticket_state import TicketState
from fencelock.io.contract import IO, Event, Task

_READ_INTERVAL = 0.1
"""Seconds between two looks for answers on idle links, where no event loop reads them."""

_Key = tuple[int, str]
"""A node and a ticket's id."""


class Release(NamedTuple):
    """What to send."""

    ticket: Ticket
    fence: int
    departure: Departure
    channels: list[str]
    """The channel at each node that must not be woken any more."""


class _Pending(NamedTuple):
    release: Release
    expires: float


class PendingReleases:
    """Sends releases again in the background. The task runs only while there is something to do."""

    def __init__(self, nodes: Nodes, io: IO) -> None:
        self._nodes = nodes
        self._io = io
        self._sent: dict[_Key, _Pending] = {}  # until the node has answered
        self._unsent: dict[_Key, _Pending] = {}
        self._task: Task | None = None
        self._alarm: Event | None = None
        self._running = threading.Lock()  # several threads may want to start the task at once
        self._closing = False

    def add(self, nodes: Iterable[int], release: Release) -> None:
        """Send this release to these nodes: they may know the ticket, and were not told that it is over."""
        pending = self._pending(release)
        for node in nodes:
            self._unsent[node, release.ticket.id] = pending
        self._start()

    def track(
        self, links: NodeLinks, unanswered: Iterable[int], state: TicketState, release: Release
    ) -> None:
        """Call this after a release was sent on these links. `unanswered`: nodes that have not answered yet.

        Nodes that can't have received it, or received it before the bid, are sent it again. So are those
        whose answer does not come.
        """
        missed = {node for node in state.known_at() if links.at[node] is None}
        if state.asked_on is not None and not links.follows(state.asked_on):
            missed.update(state.unheard)
        if missed:
            self.add(missed, release)
        pending = self._pending(release)
        for node in unanswered:
            if node not in missed:
                key = node, release.ticket.id
                self._sent[key] = pending
                links.when_answered(node, partial(self._answered, key))
        self._start()

    async def close(self) -> None:
        """End the background task. What is still pending ends with its ttl."""
        self._closing = True
        if self._alarm is not None:
            self._alarm.set()
        if self._task is not None:
            await self._task.join()

    def _pending(self, release: Release) -> _Pending:
        return _Pending(release, self._io.now() + release.ticket.ttl)

    def _answered(self, key: _Key, done: bool) -> None:
        pending = self._sent.pop(key, None)
        if pending is not None and not done:
            self._unsent[key] = pending
            self._start()

    @property
    def _busy(self) -> bool:
        wanted = self._unsent or (self._sent and not self._nodes.notices_lost_links)
        return bool(wanted) and not self._closing

    def _start(self) -> None:
        if self._busy and self._running.acquire(blocking=False):
            self._alarm = self._io.event()
            self._task = self._io.spawn(self._run(self._alarm), "fencelock-releases")

    async def _run(self, alarm: Event) -> None:
        backoff = Backoff(0.05, 1.0, self._io.random)
        try:
            while self._busy:
                if not self._unsent:
                    backoff.reset()
                await alarm.wait(backoff.next() if self._unsent else _READ_INTERVAL)
                if not self._closing:
                    await self._nodes.catch_up()
                now = self._io.now()
                for these in (self._sent, self._unsent):
                    for key in [key for key, one in list(these.items()) if one.expires <= now]:
                        these.pop(key, None)
                if self._unsent and not self._closing:
                    await self._send_all()
        finally:
            self._running.release()
            self._start()  # something may have been added in the last moment

    async def _send_all(self) -> None:
        try:
            links = await self._nodes.take(self._nodes.node_timeout)
        except (RequestFailed, FencelockError):
            return
        reachable = [key for key in list(self._unsent) if links.at[key[0]] is not None]
        keys = {node: [key for key in reachable if key[0] == node] for node, _ in reachable}

        def take(node: int, replies: list[Any] | None) -> Sequence[Request]:
            if replies is not None:
                for key in keys.pop(node, ()):
                    self._unsent.pop(key, None)
            return ()

        def call(key: _Key) -> bytes:
            node, _ = key
            ticket, fence, departure, channels = self._unsent[key].release
            return release(links.runs[node], ticket, fence, departure, channels[node])

        requests = [Request.of(node, [call(key) for key in its]) for node, its in keys.items()]
        with self._nodes.returned(links):
            await ask(self._nodes, links, requests, take, self._nodes.node_timeout)
