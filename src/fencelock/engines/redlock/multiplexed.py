"""The nodes in an asyncio program: all tasks share one link to each node."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

from hiredis import ReplyError

from fencelock.engines.failure import RequestFailed
from fencelock.engines.redlock.node_links import NodeAnswer, NodeLinks
from fencelock.engines.redlock.nodes import NodeHealth, Nodes
from fencelock.engines.redlock.protocol import majority
from fencelock.engines.reply import Reply
from fencelock.engines.resp.link import Link, Node
from fencelock.engines.resp.multiplexed import MultiplexedLink
from fencelock.io import clock
from fencelock.io.contract import IO

_LINK_TIMEOUT = 10.0
"""Seconds after which a link itself gives a request up. The caller has given up long before."""


class MultiplexedLinks(NodeLinks):
    """Made for one caller, from links that all tasks share."""

    at: list[MultiplexedLink | None]

    def __init__(self, nodes: int) -> None:
        super().__init__(nodes)
        self._loop = asyncio.get_running_loop()
        self._requests = 0
        self._asked = [0] * nodes  # the number of the request that each node has to answer, or 0
        self._last = [
            0
        ] * nodes  # the newest request that it has not answered, skipped ones included
        self._callbacks: dict[int, Callable[[bool], None]] = {}
        self._wanted = 1
        self._enough_answers: Reply[None] | None = None
        self._woken: Reply[None] | None = None

    def follows(self, other: NodeLinks) -> bool:
        return True

    def connect(self, node: int, link: Link, run: str) -> None:
        assert isinstance(link, MultiplexedLink)
        self.at[node], self.runs[node] = link, run

    def drop(self, node: int) -> None:
        link, self.at[node] = self.at[node], None
        self._asked[node] = 0
        if link is not None:
            link.close()

    def begin(self) -> None:
        self._answers.clear()
        self._asked = [0] * len(self.at)

    def send(self, node: int, payload: bytes, count: int) -> None:
        try:
            self._asked[node] = self._post(node, payload, count)
        except RequestFailed as error:
            self._asked[node] = 0
            self._answers.append((node, error))

    def tell(self, node: int, payload: bytes, count: int) -> None:
        if self.at[node] is not None:
            with suppress(RequestFailed):
                self._post(node, payload, count)

    def when_answered(self, node: int, call: Callable[[bool], None]) -> None:
        number = self._last[node]
        if self.at[node] is not None and number:
            self._callbacks[number] = call
        else:
            call(self.at[node] is not None)

    async def next_answer(self, until: float) -> NodeAnswer | None:
        while not self._answers and (owing := sum(map(bool, self._asked))):
            left = until - clock.now()
            if left <= 0:
                await _read_arrived()
                break
            # With fewer answers nothing can be decided, so the task need not run.
            self._wanted = max(1, owing - len(self.at) + majority(len(self.at)))
            self._enough_answers = Reply(self._loop)
            await self._enough_answers.within(left, None)
        return self._answers.popleft() if self._answers else None

    def unanswered(self) -> list[int]:
        return [node for node, number in enumerate(self._asked) if number]

    async def overdue(self, limit: float) -> list[int]:
        late = self._quiet_for(limit)
        if late:
            await _read_arrived()
            late = self._quiet_for(limit)
        return late

    def _quiet_for(self, limit: float) -> list[int]:
        return [
            node for node, link in enumerate(self.at) if link is not None and link.silence() > limit
        ]

    def expect(self, waiter: str) -> None:
        if self._woken is None or self._woken.done:
            self._woken = Reply(self._loop)
        for link in self.at:
            if link is not None and link.broken is None:
                link.expect(waiter, self._woken)

    def ignore(self, waiter: str) -> None:
        self.dismiss(waiter)
        for link in self.at:
            if link is not None:
                link.ignore(waiter)

    async def listen(self, waiter: str, until: float) -> None:
        if self._woken is not None:
            with suppress(RequestFailed):  # a link was cut: the caller looks again
                await self._woken.within(until - clock.now(), None)

    def dismiss(self, waiter: str) -> None:
        if self._woken is not None:
            self._woken.arrive_soon(None)

    def interrupt(self, waiter: str) -> None:
        with suppress(RuntimeError):  # the loop is closed, and nobody listens any more
            self._loop.call_soon_threadsafe(self.dismiss, waiter)

    def _post(self, node: int, payload: bytes, count: int) -> int:
        link = self.at[node]
        if link is None:  # lost after its answer to the request before
            raise RequestFailed("the connection was lost", "not applied")
        self._requests = number = self._requests + 1
        try:
            link.post(payload, count, _LINK_TIMEOUT, partial(self._answered, node, number))
        except RequestFailed:
            self.at[node] = None
            raise
        self._last[node] = number
        return number

    def _answered(self, node: int, number: int, answer: list[Any] | RequestFailed) -> None:
        if number == self._last[node]:
            self._last[node] = 0
        if self._callbacks and (call := self._callbacks.pop(number, None)) is not None:
            refused = isinstance(answer, RequestFailed) or any(
                isinstance(one, ReplyError) for one in answer
            )
            call(not refused)
        if number != self._asked[node]:
            return
        self._asked[node] = 0
        lost = isinstance(answer, RequestFailed)
        if lost:
            self.at[node] = None
        self._answers.append((node, answer))
        if self._enough_answers is None or len(self._answers) < self._wanted:
            return
        if lost:
            self._enough_answers.arrive_soon(None)  # perhaps a task has closed the link
        else:
            self._enough_answers.arrive(None)


async def _read_arrived() -> None:
    """Let the event loop read what has arrived. It first runs the tasks that are ready."""
    for _ in range(3):
        await asyncio.sleep(0)


class MultiplexedNodes(Nodes):
    """One link to each node for all tasks."""

    notices_lost_links = True

    def __init__(self, nodes: Sequence[Node], io: IO, node_timeout: float) -> None:
        super().__init__(nodes, io, node_timeout)
        self._known: list[tuple[Link | None, str]] = [(None, "")] * len(nodes)

    def _ready(self, kept: NodeLinks | None, before: NodeLinks | None) -> MultiplexedLinks:
        links = MultiplexedLinks(len(self.all))
        for number, (known, run) in enumerate(self._known):
            link = self.all[number].node.ready()
            if link is not None and link is known:
                links.connect(number, link, run)
        return links

    def _identify(self, health: NodeHealth, link: Link) -> str:
        known, run = self._known[health.number]
        if known is not link:
            run = super()._identify(health, link)
            self._known[health.number] = link, run
        return run

    def give(self, links: NodeLinks) -> None:
        pass  # all tasks share the links, and these skip by themselves what nobody waits for

    discard = give

    async def catch_up(self) -> None:
        pass  # the event loop reads
