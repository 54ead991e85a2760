"""Releases that did not reach a node: told again when it is back, unless the lock has expired there.

A majority decides that a lock was released, and nobody waits for the others. That they were told does
not mean that they heard it: a line that breaks then takes along what was under way.
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
from fencelock.engines.redlock.lines import Lines
from fencelock.engines.redlock.members import Members
from fencelock.engines.redlock.requests import release
from fencelock.io.contract import IO, Event, Task

_LOOK = 0.1
"""Seconds between two looks whether nodes have answered, where nobody tells us."""

_Key = tuple[int, str]
"""A node and a ticket's id."""


class Release(NamedTuple):
    """What is to be told."""

    ticket: Ticket
    fence: int
    departure: Departure
    channels: list[str]
    """Where each node is not to wake it any more."""


class _Leftover(NamedTuple):
    release: Release
    until: float


class Leftovers:
    """Tries again and again, in the background, and only while there is something left."""

    def __init__(self, members: Members, io: IO) -> None:
        self._members = members
        self._io = io
        self._told: dict[_Key, _Leftover] = {}  # until the node has answered
        self._left: dict[_Key, _Leftover] = {}  # to be told again
        self._task: Task | None = None
        self._alarm: Event | None = None
        self._running = threading.Lock()  # for several may notice at once that nothing runs
        self._closing = False

    def note(self, nodes: Iterable[int], release: Release) -> None:
        """These nodes may have this ticket, and have not been told that it is over."""
        left = self._leftover(release)
        for node in nodes:
            self._left[node, release.ticket.id] = left
        self._start()

    def doubt(self, nodes: Iterable[int], lines: Lines, release: Release) -> None:
        """These nodes have just been told so, and have not answered."""
        left = self._leftover(release)
        for node in nodes:
            key = node, release.ticket.id
            self._told[key] = left
            lines.when_heard(node, partial(self._heard, key))
        self._start()

    async def close(self) -> None:
        """End the background; what is left ends with its ttl."""
        self._closing = True
        if self._alarm is not None:
            self._alarm.set()
        if self._task is not None:
            await self._task.join()

    def _leftover(self, release: Release) -> _Leftover:
        return _Leftover(release, self._io.now() + release.ticket.ttl)

    def _heard(self, key: _Key, heard: bool) -> None:
        left = self._told.pop(key, None)
        if left is not None and not heard:
            self._left[key] = left
            self._start()

    @property
    def _busy(self) -> bool:
        return (
            bool(self._left or (self._told and not self._members.attentive)) and not self._closing
        )

    def _start(self) -> None:
        if self._busy and self._running.acquire(blocking=False):
            self._alarm = self._io.event()
            self._task = self._io.spawn(self._run(self._alarm), "fencelock-leftovers")

    async def _run(self, alarm: Event) -> None:
        backoff = Backoff(0.05, 1.0, self._io.random)
        try:
            while self._busy:
                if not self._left:
                    backoff.reset()
                await alarm.wait(backoff.next() if self._left else _LOOK)
                if not self._closing:
                    await self._members.catch_up()
                now = self._io.now()
                for these in (self._told, self._left):
                    for key in [key for key, left in list(these.items()) if left.until <= now]:
                        these.pop(key, None)
                if self._left and not self._closing:
                    await self._deliver()
        finally:
            self._running.release()
            self._start()  # something may have come in the last moment

    async def _deliver(self) -> None:
        try:
            lines = await self._members.take(self._members.node_timeout)
        except (RequestFailed, FencelockError):
            return
        here = [key for key in list(self._left) if lines.links[key[0]] is not None]
        waiting = {node: [key for key in here if key[0] == node] for node, _ in here}

        def take(node: int, replies: list[Any] | None) -> Sequence[Request]:
            for key in waiting.pop(node, ()):
                if replies is not None:
                    self._left.pop(key, None)
            return ()

        def call(key: _Key) -> bytes:
            node, _ = key
            ticket, fence, departure, channels = self._left[key].release
            return release(lines.runs[node], ticket, fence, departure, channels[node])

        requests = [Request.of(node, [call(key) for key in keys]) for node, keys in waiting.items()]
        patience = self._members.node_timeout
        try:
            await ask(self._members, lines, requests, take, lambda: not waiting, patience)
        except BaseException:
            self._members.discard(lines)
            raise
        self._members.give(lines)
