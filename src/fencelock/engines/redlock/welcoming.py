"""Nodes that may have forgotten something are welcomed back when that can do no harm any more."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fencelock.engines.failure import RequestFailed
from fencelock.engines.redlock.asking import Request, ask
from fencelock.engines.redlock.lines import Lines
from fencelock.engines.redlock.members import Members
from fencelock.engines.redlock.remembering import Memory, floor_for, wait
from fencelock.engines.redlock.requests import hint
from fencelock.engines.redlock.scripts import LOOK, NODE, WELCOME
from fencelock.io.contract import IO, Task

_AGAIN = 0.5
"""Seconds between two looks at them."""

_BEGINNING = 1.0
"""Seconds that a node may take where nobody can vote before it is heard."""


class Host:
    """Looks at all nodes if one was found blank."""

    def __init__(self, members: Members, io: IO) -> None:
        self._members = members
        self._io = io
        self._look_at = 0.0
        self._task: Task | None = None
        self._looking = False
        self._blank: dict[int, float] = {}
        """Nodes that do not vote yet, and for how many seconds more."""

    async def welcome(self, lines: Lines) -> bool:
        """Look at all nodes, and welcome those that may vote again; whether there was one."""
        heard = await self._hear(lines)
        nodes = len(self._members.all)
        if 0 < len(heard) < nodes and not any(memory.whole for memory in heard.values()):
            # A new set of nodes begins when all were heard: so be patient with the slowest one.
            await self._members.revive(lines, nodes, self._io.now() + _BEGINNING)
            heard = await self._hear(lines)
        welcomed = 0

        def taken(node: int, replies: list[Any] | None) -> Sequence[Request]:
            nonlocal welcomed
            welcomed += replies == [1]
            return ()

        welcomes = []
        self._blank = {
            node: wait(heard.values()) - one.age for node, one in heard.items() if not one.whole
        }
        for node in self._blank:
            floor = floor_for(node, heard, nodes, hint=hint())
            if floor is not None:
                arguments = (lines.runs[node], str(heard[node].since), str(floor))
                welcomes.append(Request.of(node, [WELCOME.call((NODE,), *arguments)]))
        await self._ask(lines, welcomes, taken)
        for request in welcomes:
            self._blank.pop(request.node, None)
        return welcomed > 0

    def look_after(self) -> None:
        """Do that in the background, now and then."""
        if not self._looking and self._io.now() >= self._look_at:
            self._looking = True  # not by the task: it may have ended before we have it
            self._look_at = self._io.now() + _AGAIN
            self._task = self._io.spawn(self._look(), "fencelock-welcome")

    def explain(self) -> str:
        """Which nodes do not vote, and why."""
        return "; ".join(
            f"{self._members.all[node]}: restarted or was emptied, and does not vote until all that "
            f"it has forgotten is over, {max(0.0, left):.1f} s from now or a little more"
            for node, left in self._blank.items()
        )

    async def close(self) -> None:
        if self._task is not None:
            await self._task.join()

    async def _look(self) -> None:
        try:
            lines = await self._members.take(self._members.node_timeout)
            try:
                await self.welcome(lines)
            except BaseException:
                self._members.discard(lines)
                raise
            self._members.give(lines)
        except RequestFailed:
            pass  # closed meanwhile
        finally:
            self._looking = False

    async def _hear(self, lines: Lines) -> dict[int, Memory]:
        """What the nodes say of themselves."""
        heard: dict[int, Memory] = {}

        def take(node: int, replies: list[Any] | None) -> Sequence[Request]:
            if replies is not None:
                heard[node] = Memory.parse(replies[0])
            return ()

        looks = [Request.of(node, [LOOK.call((NODE,), lines.runs[node])]) for node in lines.up()]
        await self._ask(lines, looks, take)
        return heard

    async def _ask(self, lines: Lines, requests: list[Request], take: Any) -> None:
        answered: set[int] = set()

        def count(node: int, replies: list[Any] | None) -> Sequence[Request]:
            answered.add(node)
            more: Sequence[Request] = take(node, replies)
            return more

        await ask(
            self._members,
            lines,
            requests,
            count,
            lambda: answered >= {request.node for request in requests},
            self._members.node_timeout,
        )
