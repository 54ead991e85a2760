"""Lines for blocking programs: a socket to each node, and one poll for all of them."""

from __future__ import annotations

import select
from collections.abc import Callable
from typing import Any

from hiredis import ReplyError

from fencelock.engines.failure import RequestFailed
from fencelock.engines.redlock.lines import Heard, Lines
from fencelock.engines.resp.blocking import BlockingLink
from fencelock.engines.resp.link import Link
from fencelock.io import clock


class BlockingLines(Lines):
    """Used by one thread at a time."""

    links: list[BlockingLink | None]

    def __init__(self, nodes: int) -> None:
        super().__init__(nodes)
        self._poll = select.poll()
        self._nodes: dict[int, int] = {}  # by the number of the socket
        self._lacking = [0] * nodes  # replies that the last question still waits for
        self._owed = [0] * nodes  # replies to earlier ones, which nobody waits for
        self._when_heard: list[list[Callable[[bool], None]]] = [[] for _ in range(nodes)]
        self._quiet_since = [0.0] * nodes
        self._replies: list[list[Any]] = [[] for _ in range(nodes)]
        self._dismissed = False
        self.used_at = 0.0

    @property
    def usable(self) -> bool:
        return not self._dismissed

    def follows(self, other: Lines) -> bool:
        return self is other

    def connect(self, node: int, link: Link, run: str) -> None:
        assert isinstance(link, BlockingLink)
        self.links[node], self.runs[node] = link, run
        self._lacking[node] = self._owed[node] = 0
        self._nodes[link.fileno()] = node
        self._poll.register(link.fileno(), select.POLLIN)

    def drop(self, node: int) -> None:
        link, self.links[node] = self.links[node], None
        if link is None:
            return
        for number in [number for number, one in self._nodes.items() if one == node]:
            del self._nodes[number]  # not by the link's own number: it may be closed already
            self._poll.unregister(number)
        self._lacking[node] = self._owed[node] = 0
        link.close()
        self._tell_who_asked(node, heard=False)

    def begin(self) -> None:
        self._heard.clear()
        for node, count in enumerate(self._lacking):
            if count:
                self._owed[node] += count
                self._lacking[node] = 0

    def send(self, node: int, payload: bytes, count: int) -> None:
        link = self.links[node]
        assert link is not None
        if not self._owed[node]:
            self._quiet_since[node] = clock.now()
        self._lacking[node] = count
        self._replies[node] = []
        try:
            link.send(payload)
        except RequestFailed as error:
            self._lose(node, error)

    def tell(self, node: int, payload: bytes, count: int) -> None:
        link = self.links[node]
        if link is None:
            return
        if not self._owed[node]:
            self._quiet_since[node] = clock.now()
        self._owed[node] += count
        try:
            link.send(payload)
        except RequestFailed as error:
            self._lose(node, error)

    def when_heard(self, node: int, call: Callable[[bool], None]) -> None:
        if self._owed[node] or self._lacking[node]:
            self._when_heard[node].append(call)
        else:
            call(self.links[node] is not None)

    async def hear(self, until: float) -> Heard | None:
        while not self._heard and any(self._lacking):
            left = until - clock.now()
            self._read(max(left, 0.0))
            if left <= 0:
                break
        return self._heard.popleft() if self._heard else None

    def silent(self) -> list[int]:
        return [node for node, count in enumerate(self._lacking) if count]

    async def overdue(self, limit: float) -> list[int]:
        late = self._silent_since(clock.now() - limit)
        if late:
            self._read(0.0)
            late = self._silent_since(clock.now() - limit)
        return late

    def _silent_since(self, moment: float) -> list[int]:
        return [
            node
            for node, since in enumerate(self._quiet_since)
            if since < moment and (self._owed[node] or self._lacking[node])
        ]

    def expect(self, waiter: str) -> None:
        pass  # pushes are collected anyway, and its lines are its own

    def ignore(self, waiter: str) -> None:
        for link in self.links:
            if link is not None:
                link.woken.clear()

    async def listen(self, waiter: str, until: float) -> None:
        while not self._woken(waiter) and self._nodes and not self._dismissed:
            left = until - clock.now()
            if left <= 0:
                return
            self._read(left)

    def dismiss(self, waiter: str) -> None:
        self._dismissed = True
        for link in self.links:
            if link is not None:
                link.hang_up()

    interrupt = dismiss

    def settle(self, patience: float) -> None:
        """Wait a moment for what is owed: to hang up before it is read may undo what was sent."""
        until = clock.now() + patience
        while any(self._owed) or any(self._lacking):
            left = until - clock.now()
            if left <= 0:
                return
            self._read(left)

    def catch_up(self) -> None:
        """Read what has come in the meantime.

        A line that was cut looks the same as one with an answer, until that is read. The next question
        then learns of it while it waits for the others.
        """
        if any(self._owed) or any(self._lacking):
            self._read(0.0)

    def drop_cut(self) -> None:
        """Drop the lines that a server has closed while they lay idle."""
        for number, _ in self._poll.poll(0):
            node = self._nodes[number]
            link = self.links[node]
            if link is not None and link.is_cut():
                self.drop(node)

    def close(self) -> None:
        for node in range(len(self.links)):
            self.drop(node)

    def _woken(self, waiter: str) -> bool:
        return any(
            link is not None and link.woken.pop(waiter, None) is not None for link in self.links
        )

    def _read(self, timeout: float) -> None:
        """Take in what has arrived, or wait for it."""
        ready = self._poll.poll(timeout * 1000)
        now = clock.now()
        for number, _ in ready:
            node = self._nodes[number]
            link = self.links[node]
            assert link is not None
            try:
                replies = link.read()
            except RequestFailed as error:
                self._lose(node, error)
                continue
            if not replies:  # only wake-ups, or a part of a reply
                continue
            self._quiet_since[node] = now
            if self._when_heard[node] and any(isinstance(one, ReplyError) for one in replies):
                self._tell_who_asked(node, heard=False)
            if owed := self._owed[node]:
                self._owed[node] = max(0, owed - len(replies))
                del replies[:owed]
            if replies:
                self._replies[node] += replies
                self._lacking[node] -= len(replies)
                if self._lacking[node] == 0:
                    self._heard.append((node, self._replies[node]))
            if not self._owed[node] and not self._lacking[node]:
                self._tell_who_asked(node, heard=True)

    def _tell_who_asked(self, node: int, *, heard: bool) -> None:
        if self._when_heard[node]:
            calls, self._when_heard[node] = self._when_heard[node], []
            for call in calls:
                call(heard)

    def _lose(self, node: int, error: RequestFailed) -> None:
        waited = self._lacking[node] > 0
        self.drop(node)
        if waited:
            self._heard.append((node, error))
