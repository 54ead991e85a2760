"""Lines for asyncio: all tasks share one link to each node."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from functools import partial
from typing import Any

from holdfast.engines.redlock.lines import Heard, Lines
from holdfast.engines.resp.link import Link
from holdfast.engines.resp.multiplexed import MultiplexedLink
from holdfast.engines.resp.wire import Broken
from holdfast.io import clock

_LATE = 10.0
"""Seconds after which a link itself complains; whoever asked has given up long before."""


class MultiplexedLines(Lines):
    """Made for one caller, from links that are everybody's."""

    links: list[MultiplexedLink | None]

    def __init__(self, nodes: int) -> None:
        super().__init__(nodes)
        self._loop = asyncio.get_running_loop()
        self._questions: list[asyncio.Future[list[Any]] | None] = [None] * nodes
        self._news: asyncio.Future[None] | None = None
        self._woken: asyncio.Future[None] | None = None

    def follows(self, other: Lines) -> bool:
        return True

    def connect(self, node: int, link: Link, run: str) -> None:
        assert isinstance(link, MultiplexedLink)
        self.links[node], self.runs[node] = link, run

    def drop(self, node: int) -> None:
        link, self.links[node] = self.links[node], None
        self._questions[node] = None
        if link is not None:
            link.close()

    def begin(self) -> None:
        self._heard.clear()
        self._questions = [None] * len(self.links)

    def send(self, node: int, payload: bytes, count: int) -> None:
        link = self.links[node]
        assert link is not None
        try:
            future = link.exchange(payload, count, _LATE)
        except Broken as error:
            self.links[node] = self._questions[node] = None
            self._heard.append((node, error))
            return
        self._questions[node] = future
        future.add_done_callback(partial(self._answered, node))

    def tell(self, node: int, payload: bytes, count: int) -> None:
        link = self.links[node]
        if link is None:
            return
        try:
            link.exchange(payload, count, _LATE).add_done_callback(_seen)
        except Broken:
            self.links[node] = None

    async def hear(self, until: float) -> Heard | None:
        while not self._heard and any(self._questions):
            left = until - clock.now()
            if left <= 0:
                await _catch_up()
                break
            self._news = self._loop.create_future()
            await self._within(self._news, left)
        return self._heard.popleft() if self._heard else None

    def silent(self) -> list[int]:
        return [node for node, future in enumerate(self._questions) if future is not None]

    async def overdue(self, limit: float) -> list[int]:
        late = self._silent_for(limit)
        if late:
            await _catch_up()
            late = self._silent_for(limit)
        return late

    def _silent_for(self, limit: float) -> list[int]:
        return [
            node
            for node, link in enumerate(self.links)
            if link is not None and link.silence() > limit
        ]

    def expect(self, waiter: str) -> None:
        if self._woken is None or self._woken.done():
            self._woken = self._loop.create_future()
            self._woken.add_done_callback(_seen)
        for link in self.links:
            if link is not None and link.broken is None:
                link.expect(waiter, self._woken)

    def ignore(self, waiter: str) -> None:
        self.dismiss(waiter)
        for link in self.links:
            if link is not None:
                link.ignore(waiter)

    async def listen(self, waiter: str, until: float) -> None:
        if self._woken is not None:
            with suppress(Broken):  # a line was cut: that is news, too
                await self._within(self._woken, until - clock.now())

    def dismiss(self, waiter: str) -> None:
        if self._woken is not None:
            _settle(self._woken)

    def rouse(self, waiter: str) -> None:
        with suppress(RuntimeError):  # the loop is closed, and nobody listens any more
            self._loop.call_soon_threadsafe(self.dismiss, waiter)

    def _answered(self, node: int, future: asyncio.Future[list[Any]]) -> None:
        error = None if future.cancelled() else future.exception()  # seen, whoever asked
        if future is not self._questions[node]:
            return
        self._questions[node] = None
        if error is None and not future.cancelled():
            self._heard.append((node, future.result()))
        else:
            self.links[node] = None
            why = error if isinstance(error, Broken) else Broken("it was given up", "unknown")
            self._heard.append((node, why))
        if self._news is not None:
            _settle(self._news)

    async def _within(self, future: asyncio.Future[None], timeout: float) -> None:
        """Wait for a future that is nobody else's; when the time is up it is settled, too."""
        late = self._loop.call_later(max(timeout, 0.0), _settle, future)
        try:
            await future
        finally:
            late.cancel()


def _settle(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)


async def _catch_up() -> None:
    """Let the event loop read what has arrived: it does so after those who are ready to run."""
    for _ in range(3):
        await asyncio.sleep(0)


def _seen(future: asyncio.Future[Any]) -> None:
    """Nobody waits for it; but asyncio would complain that nobody looked."""
    if not future.cancelled():
        future.exception()
