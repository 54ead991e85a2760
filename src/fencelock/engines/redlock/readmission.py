"""Lets blank nodes vote again when that can do no harm; `readmission_rule` has the rule."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fencelock.engines.failure import RequestFailed
from fencelock.engines.redlock.asking import Request, ask
from fencelock.engines.redlock.node_links import NodeLinks
from fencelock.engines.redlock.nodes import Nodes
from fencelock.engines.redlock.readmission_rule import Memory, floor_for, wait
from fencelock.engines.redlock.requests import hint
from fencelock.engines.redlock.scripts import LOOK, NODE, READMIT
from fencelock.io.contract import IO, Task

_INTERVAL = 0.5
"""Least seconds between two checks in the background."""

_FIRST_START_TIMEOUT = 1.0
"""Seconds that the slowest node of a new set gets: nobody can vote before all were heard."""


class Readmission:
    """Looks at all nodes after one was found blank."""

    def __init__(self, nodes: Nodes, io: IO) -> None:
        self._nodes = nodes
        self._io = io
        self._next_check = 0.0
        self._task: Task | None = None
        self._running = False
        self._blank: dict[int, float] = {}
        """The nodes that do not vote yet, each with the seconds that it still has to wait."""

    async def readmit(self, links: NodeLinks) -> bool:
        """Look at all nodes, and readmit those that may vote again. Returns whether there was one."""
        heard = await self._look(links)
        nodes = len(self._nodes.all)
        if 0 < len(heard) < nodes and not any(memory.intact for memory in heard.values()):
            # A new set of nodes begins when all were heard, so wait for the slowest one.
            await self._nodes.revive(links, nodes, self._io.now() + _FIRST_START_TIMEOUT)
            heard = await self._look(links)
        readmitted = 0

        def take(node: int, replies: list[Any] | None) -> Sequence[Request]:
            nonlocal readmitted
            readmitted += replies == [1]
            return ()

        requests = []
        self._blank = {
            node: wait(heard.values()) - one.age for node, one in heard.items() if not one.intact
        }
        for node in self._blank:
            floor = floor_for(node, heard, nodes, hint=hint())
            if floor is not None:
                arguments = (links.runs[node], str(heard[node].since), str(floor))
                requests.append(Request.of(node, [READMIT.call((NODE,), *arguments)]))
        await ask(self._nodes, links, requests, take, self._nodes.node_timeout)
        for request in requests:
            self._blank.pop(request.node, None)
        return readmitted > 0

    def start(self) -> None:
        """Do that in the background, unless it was done a moment ago."""
        if not self._running and self._io.now() >= self._next_check:
            # Set here and not by the task: the task may have ended before `_task` is assigned.
            self._running = True
            self._next_check = self._io.now() + _INTERVAL
            self._task = self._io.spawn(self._run(), "fencelock-readmit")

    def explain(self) -> str:
        """Which nodes do not vote, and why."""
        return "; ".join(
            f"{self._nodes.all[node]}: restarted or was emptied, and does not vote until all that "
            f"it has forgotten is over, {max(0.0, left):.1f} s from now or a little more"
            for node, left in self._blank.items()
        )

    async def close(self) -> None:
        if self._task is not None:
            await self._task.join()

    async def _run(self) -> None:
        try:
            links = await self._nodes.take(self._nodes.node_timeout)
            with self._nodes.returned(links):
                await self.readmit(links)
        except RequestFailed:
            pass  # the client was closed meanwhile
        finally:
            self._running = False

    async def _look(self, links: NodeLinks) -> dict[int, Memory]:
        """What the nodes say about themselves."""
        heard: dict[int, Memory] = {}

        def take(node: int, replies: list[Any] | None) -> Sequence[Request]:
            if replies is not None:
                heard[node] = Memory.parse(replies[0])
            return ()

        requests = [
            Request.of(node, [LOOK.call((NODE,), links.runs[node])]) for node in links.connected()
        ]
        await ask(self._nodes, links, requests, take, self._nodes.node_timeout)
        return heard
