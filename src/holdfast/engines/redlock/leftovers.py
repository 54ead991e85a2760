"""Releases that did not reach a node: delivered when it is back, unless the lock has expired there."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from holdfast.core.backoff import Backoff
from holdfast.core.errors import HoldfastError
from holdfast.core.ticket import Departure, Ticket
from holdfast.engines.redlock.asking import Request, ask
from holdfast.engines.redlock.members import Members
from holdfast.engines.redlock.requests import release
from holdfast.engines.resp.wire import Broken
from holdfast.io.contract import IO, Event, Task


class _Leftover(NamedTuple):
    ticket: Ticket
    fence: int
    departure: Departure
    channel: str
    until: float


class Leftovers:
    """Tries again and again, in the background, and only while there is something left."""

    def __init__(self, members: Members, io: IO) -> None:
        self._members = members
        self._io = io
        self._left: dict[tuple[int, str], _Leftover] = {}  # by node and ticket
        self._task: Task | None = None
        self._alarm: Event | None = None
        self._running = False
        self._closing = False

    def note(
        self,
        nodes: Iterable[int],
        ticket: Ticket,
        fence: int,
        departure: Departure,
        channels: list[str],
    ) -> None:
        """These nodes may have this ticket, and have not been told that it is over."""
        until = self._io.now() + ticket.ttl
        for node in nodes:
            left = _Leftover(ticket, fence, departure, channels[node], until)
            self._left[node, ticket.id] = left
        self._start()

    async def close(self) -> None:
        """End the background; what is left ends with its ttl."""
        self._closing = True
        if self._alarm is not None:
            self._alarm.set()
        if self._task is not None:
            await self._task.join()

    def _start(self) -> None:
        if self._left and not self._running and not self._closing:
            self._running = True
            self._alarm = self._io.event()
            self._task = self._io.spawn(self._run(self._alarm), "holdfast-leftovers")

    async def _run(self, alarm: Event) -> None:
        backoff = Backoff(0.05, 1.0, self._io.random)
        try:
            while self._left and not self._closing:
                await alarm.wait(backoff.next())
                now = self._io.now()
                for key in [key for key, left in self._left.items() if left.until <= now]:
                    self._left.pop(key, None)
                if self._left and not self._closing:
                    await self._deliver()
        finally:
            self._running = False
            self._start()  # something may have come in the last moment

    async def _deliver(self) -> None:
        try:
            lines = await self._members.take(self._members.node_timeout)
        except (Broken, HoldfastError):
            return
        here = [key for key in list(self._left) if lines.links[key[0]] is not None]
        waiting = {node: [key for key in here if key[0] == node] for node, _ in here}

        def take(node: int, replies: list[Any] | None) -> Sequence[Request]:
            for key in waiting.pop(node, ()):
                if replies is not None:
                    self._left.pop(key, None)
            return ()

        def call(key: tuple[int, str]) -> bytes:
            left = self._left[key]
            run = lines.runs[key[0]]
            return release(run, left.ticket, left.fence, left.departure, left.channel)

        requests = [Request.of(node, [call(key) for key in keys]) for node, keys in waiting.items()]
        patience = self._members.node_timeout
        try:
            await ask(self._members, lines, requests, take, lambda: not waiting, patience)
        except BaseException:
            self._members.discard(lines)
            raise
        self._members.give(lines)
