"""The nodes in a blocking program: a socket to each node, and one poll for all of them."""

from __future__ import annotations

import select
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, cast

from hiredis import ReplyError

from fencelock.engines.failure import RequestFailed
from fencelock.engines.redlock.node_links import NodeAnswer, NodeLinks
from fencelock.engines.redlock.nodes import Nodes
from fencelock.engines.resp.blocking import BlockingLink
from fencelock.engines.resp.link import Link, Node
from fencelock.io import clock
from fencelock.io.contract import IO

_CHECK_AFTER_IDLE = 1.0
"""Seconds after which idle links are checked before they are used: a server may have closed them."""

_MAX_IDLE = 16
"""Sets of links kept for the next question. More are closed when they are given back."""

_CLOSE_DELAY = 0.05
"""Seconds to wait, before links are closed, for the nodes to read what was sent."""


class BlockingLinks(NodeLinks):
    """Used by one thread at a time."""

    at: list[BlockingLink | None]

    def __init__(self, nodes: int) -> None:
        super().__init__(nodes)
        self._poll = select.poll()
        self._by_fileno: dict[int, int] = {}
        self._lacking = [0] * nodes  # replies that the last question still waits for
        self._owed = [0] * nodes  # replies to earlier questions, which are skipped
        self._callbacks: list[list[Callable[[bool], None]]] = [[] for _ in range(nodes)]
        self._quiet_since = [0.0] * nodes
        self._replies: list[list[Any]] = [[] for _ in range(nodes)]
        self._dismissed = False
        self.used_at = 0.0

    @property
    def usable(self) -> bool:
        return not self._dismissed

    def follows(self, other: NodeLinks) -> bool:
        return self is other

    def connect(self, node: int, link: Link, run: str) -> None:
        assert isinstance(link, BlockingLink)
        self.at[node], self.runs[node] = link, run
        self._lacking[node] = self._owed[node] = 0
        self._by_fileno[link.fileno()] = node
        self._poll.register(link.fileno(), select.POLLIN)

    def drop(self, node: int) -> None:
        link, self.at[node] = self.at[node], None
        if link is None:
            return
        # Not by the link's own fileno: the link may be closed already.
        for fileno in [fileno for fileno, one in self._by_fileno.items() if one == node]:
            del self._by_fileno[fileno]
            self._poll.unregister(fileno)
        self._lacking[node] = self._owed[node] = 0
        link.close()
        self._call_back(node, answered=False)

    def begin(self) -> None:
        self._answers.clear()
        for node, count in enumerate(self._lacking):
            if count:
                self._owed[node] += count
                self._lacking[node] = 0

    def send(self, node: int, payload: bytes, count: int) -> None:
        self._replies[node] = []
        if self.at[node] is None:  # lost after its answer to the request before
            self._answers.append((node, RequestFailed("the connection was lost", "not applied")))
        else:
            self._send(node, payload, count, self._lacking)

    def tell(self, node: int, payload: bytes, count: int) -> None:
        if self.at[node] is not None:
            self._send(node, payload, count, self._owed)

    def _send(self, node: int, payload: bytes, count: int, missing: list[int]) -> None:
        link = self.at[node]
        assert link is not None
        if not self._owed[node]:
            self._quiet_since[node] = clock.now()
        missing[node] += count
        try:
            link.send(payload)
        except RequestFailed as error:
            self._lose(node, error)

    def when_answered(self, node: int, call: Callable[[bool], None]) -> None:
        if self._owed[node] or self._lacking[node]:
            self._callbacks[node].append(call)
        else:
            call(self.at[node] is not None)

    async def next_answer(self, until: float) -> NodeAnswer | None:
        while not self._answers and any(self._lacking):
            left = until - clock.now()
            self._read(max(left, 0.0))
            if left <= 0:
                break
        return self._answers.popleft() if self._answers else None

    def unanswered(self) -> list[int]:
        return [node for node, count in enumerate(self._lacking) if count]

    async def overdue(self, limit: float) -> list[int]:
        late = self._quiet_before(clock.now() - limit)
        if late:
            self._read(0.0)
            late = self._quiet_before(clock.now() - limit)
        return late

    def _quiet_before(self, moment: float) -> list[int]:
        return [
            node
            for node, since in enumerate(self._quiet_since)
            if since < moment and (self._owed[node] or self._lacking[node])
        ]

    def expect(self, waiter: str) -> None:
        pass  # a link collects all pushes, and a waiter has its links for itself

    def ignore(self, waiter: str) -> None:
        for link in self.at:
            if link is not None:
                link.wake_ups.clear()

    async def listen(self, waiter: str, until: float) -> None:
        while not self._woken(waiter) and self._by_fileno and not self._dismissed:
            left = until - clock.now()
            if left <= 0:
                return
            self._read(left)

    def dismiss(self, waiter: str) -> None:
        self._dismissed = True
        for link in self.at:
            if link is not None:
                link.shut_down()

    interrupt = dismiss

    def drain(self, limit: float) -> None:
        """Wait a moment for the replies that are owed: a node may not read what was sent before a close."""
        until = clock.now() + limit
        while any(self._owed) or any(self._lacking):
            left = until - clock.now()
            if left <= 0:
                return
            self._read(left)

    def catch_up(self) -> None:
        """Read what has arrived meanwhile.

        A link that was cut looks like one with a reply, until it is read. If this read does not find out,
        the next question does, while it waits for other nodes.
        """
        if any(self._owed) or any(self._lacking):
            self._read(0.0)

    def drop_cut(self) -> None:
        """Drop the links that a server has closed while they were idle."""
        for fileno, _ in self._poll.poll(0):
            node = self._by_fileno[fileno]
            link = self.at[node]
            if link is not None and link.is_cut():
                self.drop(node)

    def close(self) -> None:
        for node in range(len(self.at)):
            self.drop(node)

    def _woken(self, waiter: str) -> bool:
        return any(
            link is not None and link.wake_ups.pop(waiter, None) is not None for link in self.at
        )

    def _read(self, timeout: float) -> None:
        """Take in what has arrived, or wait for it."""
        ready = self._poll.poll(timeout * 1000)
        now = clock.now()
        for fileno, _ in ready:
            node = self._by_fileno[fileno]
            link = self.at[node]
            assert link is not None
            try:
                replies = link.read()
            except RequestFailed as error:
                self._lose(node, error)
                continue
            if not replies:  # only wake-ups, or a part of a reply
                continue
            self._quiet_since[node] = now
            if self._callbacks[node] and any(isinstance(one, ReplyError) for one in replies):
                self._call_back(node, answered=False)
            if owed := self._owed[node]:
                self._owed[node] = max(0, owed - len(replies))
                del replies[:owed]
            if replies:
                self._replies[node] += replies
                self._lacking[node] -= len(replies)
                if self._lacking[node] == 0:
                    self._answers.append((node, self._replies[node]))
            if not self._owed[node] and not self._lacking[node]:
                self._call_back(node, answered=True)

    def _call_back(self, node: int, *, answered: bool) -> None:
        if self._callbacks[node]:
            calls, self._callbacks[node] = self._callbacks[node], []
            for call in calls:
                call(answered)

    def _lose(self, node: int, error: RequestFailed) -> None:
        asked = self._lacking[node] > 0
        self.drop(node)
        if asked:
            self._answers.append((node, error))


class BlockingNodes(Nodes):
    """A set of links for each thread that asks at the same time."""

    notices_lost_links = False

    def __init__(self, nodes: Sequence[Node], io: IO, node_timeout: float) -> None:
        super().__init__(nodes, io, node_timeout)
        self._idle: list[BlockingLinks] = []

    def _ready(self, kept: NodeLinks | None, before: NodeLinks | None) -> BlockingLinks:
        links = kept or self._idle_links(before)
        if links is None:
            return BlockingLinks(len(self.all))
        assert isinstance(links, BlockingLinks)
        if clock.now() - links.used_at > _CHECK_AFTER_IDLE:
            links.drop_cut()
        else:
            links.catch_up()
        return links

    def _idle_links(self, before: NodeLinks | None) -> NodeLinks | None:
        try:
            if before is not None and before is not self._idle[-1]:
                with suppress(ValueError):  # another thread uses them
                    self._idle.remove(cast(BlockingLinks, before))
                    return before
            return self._idle.pop()
        except IndexError:
            return None

    def give(self, links: NodeLinks) -> None:
        assert isinstance(links, BlockingLinks)
        links.used_at = clock.now()
        if self._closed or not links.usable or len(self._idle) >= _MAX_IDLE:
            links.drain(_CLOSE_DELAY)
            links.close()
        else:
            self._idle.append(links)

    def discard(self, links: NodeLinks) -> None:
        assert isinstance(links, BlockingLinks)
        links.close()

    async def catch_up(self) -> None:
        for links in list(self._idle):
            with suppress(ValueError):  # another thread uses them now
                self._idle.remove(links)
                links.catch_up()
                await self._drop_overdue(links)
                self._idle.insert(0, links)  # in front: they still count as unused for long

    async def close(self) -> None:
        await super().close()
        while self._idle:
            self.give(self._idle.pop())
