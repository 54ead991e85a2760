"""Lines for asyncio: all tasks share one link to each node."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any

from hiredis import ReplyError

from fencelock.engines.failure import RequestFailed
from fencelock.engines.redlock.lines import Heard, Lines
from fencelock.engines.redlock.protocol import majority
from fencelock.engines.resp.link import Link
from fencelock.engines.resp.multiplexed import MultiplexedLink
from fencelock.engines.resp.reply import Reply
from fencelock.io import clock

_LATE = 10.0
"""Seconds after which a link itself complains; whoever asked has given up long before."""


class MultiplexedLines(Lines):
    """Made for one caller, from links that are everybody's."""

    links: list[MultiplexedLink | None]

    def __init__(self, nodes: int) -> None:
        super().__init__(nodes)
        self._loop = asyncio.get_running_loop()
        self._requests = 0
        self._asked = [0] * nodes  # the request that each node is to answer, by its number
        self._last = [0] * nodes  # the newest that it has not answered, waited for or not
        self._when_heard: dict[int, Callable[[bool], None]] = {}
        self._wanted = 1
        self._news: Reply[None] | None = None
        self._woken: Reply[None] | None = None

    def follows(self, other: Lines) -> bool:
        return True

    def connect(self, node: int, link: Link, run: str) -> None:
        assert isinstance(link, MultiplexedLink)
        self.links[node], self.runs[node] = link, run

    def drop(self, node: int) -> None:
        link, self.links[node] = self.links[node], None
        self._asked[node] = 0
        if link is not None:
            link.close()

    def begin(self) -> None:
        self._heard.clear()
        self._asked = [0] * len(self.links)

    def send(self, node: int, payload: bytes, count: int) -> None:
        try:
            self._asked[node] = self._post(node, payload, count)
        except RequestFailed as error:
            self._asked[node] = 0
            self._heard.append((node, error))

    def tell(self, node: int, payload: bytes, count: int) -> None:
        if self.links[node] is not None:
            with suppress(RequestFailed):
                self._post(node, payload, count)

    def when_heard(self, node: int, call: Callable[[bool], None]) -> None:
        number = self._last[node]
        if self.links[node] is not None and number:
            self._when_heard[number] = call
        else:
            call(self.links[node] is not None)

    async def hear(self, until: float) -> Heard | None:
        while not self._heard and (owing := sum(map(bool, self._asked))):
            left = until - clock.now()
            if left <= 0:
                await _catch_up()
                break
            # Before so many have answered nothing can be decided: whoever woke would do so in vain.
            self._wanted = max(1, owing - len(self.links) + majority(len(self.links)))
            self._news = Reply(self._loop)
            await self._within(self._news, left)
        return self._heard.popleft() if self._heard else None

    def silent(self) -> list[int]:
        return [node for node, number in enumerate(self._asked) if number]

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
        if self._woken is None or self._woken.done:
            self._woken = Reply(self._loop)
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
            with suppress(RequestFailed):  # a line was cut: that is news, too
                await self._within(self._woken, until - clock.now())

    def dismiss(self, waiter: str) -> None:
        if self._woken is not None:
            self._woken.arrive_soon(None)

    def interrupt(self, waiter: str) -> None:
        with suppress(RuntimeError):  # the loop is closed, and nobody listens any more
            self._loop.call_soon_threadsafe(self.dismiss, waiter)

    def _post(self, node: int, payload: bytes, count: int) -> int:
        link = self.links[node]
        assert link is not None
        self._requests = number = self._requests + 1
        try:
            link.post(payload, count, _LATE, partial(self._answered, node, number))
        except RequestFailed:
            self.links[node] = None
            raise
        self._last[node] = number
        return number

    def _answered(self, node: int, number: int, answer: list[Any] | RequestFailed) -> None:
        if number == self._last[node]:
            self._last[node] = 0
        if self._when_heard and (call := self._when_heard.pop(number, None)) is not None:
            refused = isinstance(answer, RequestFailed) or any(
                isinstance(one, ReplyError) for one in answer
            )
            call(not refused)
        if number != self._asked[node]:
            return
        self._asked[node] = 0
        lost = isinstance(answer, RequestFailed)
        if lost:
            self.links[node] = None
        self._heard.append((node, answer))
        if self._news is None or len(self._heard) < self._wanted:
            return
        if lost:
            self._news.arrive_soon(None)  # it may be a task that has closed the link
        else:
            self._news.arrive(None)

    async def _within(self, reply: Reply[None], timeout: float) -> None:
        """Wait for a reply that is nobody else's, or until the time is up."""
        late = self._loop.call_later(max(timeout, 0.0), reply.arrive, None)
        try:
            await reply
        finally:
            late.cancel()


async def _catch_up() -> None:
    """Let the event loop read what has arrived: it does so after those who are ready to run."""
    for _ in range(3):
        await asyncio.sleep(0)
