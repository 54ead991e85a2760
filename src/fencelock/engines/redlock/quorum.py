"""A majority of the nodes: links to it, its answers, and the error if there is none."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fencelock.core.errors import EngineError, QuorumLost
from fencelock.engines.failure import RequestFailed
from fencelock.engines.redlock.asking import Request, Take, ask
from fencelock.engines.redlock.node_links import NodeLinks
from fencelock.engines.redlock.nodes import Nodes
from fencelock.engines.redlock.readmission import Readmission
from fencelock.engines.redlock.scripts import keys_of
from fencelock.engines.resp.script import Script


class Quorum:
    """The nodes used as one server that works while a majority of them does.

    Here a failure becomes an `EngineError`: `take` translates, `lost` makes the error.
    """

    def __init__(self, nodes: Nodes, readmission: Readmission, where: str) -> None:
        self._nodes = nodes
        self._readmission = readmission
        self._where = where

    async def take(
        self,
        name: str | None,
        timeout: float,
        kept: NodeLinks | None = None,
        before: NodeLinks | None = None,
    ) -> NodeLinks:
        """Links to at least a majority. `name` is for the message if there is none."""
        try:
            links = await self._nodes.take(timeout, kept, before)
        except RequestFailed as error:
            raise EngineError(
                f"{self._where}: {error}", outcome=error.outcome, name=name
            ) from error
        if None in links.at and len(links.connected()) < self._nodes.enough:
            self._nodes.give(links)
            raise self.lost(name)
        return links

    async def ask_all(
        self, links: NodeLinks, requests: Sequence[Request], take: Take, timeout: float
    ) -> None:
        """Ask, wait for all nodes, and give the links back."""
        with self._nodes.returned(links):
            await ask(self._nodes, links, requests, take, min(self._nodes.node_timeout, timeout))

    async def call_all(
        self, name: str, script: Script, timeout: float, *arguments: str
    ) -> list[Any]:
        """Call a script at all nodes. Returns the answers of at least a majority."""
        links = await self.take(name, timeout)
        answers: list[Any] = []

        def take(node: int, replies: list[Any] | None) -> Sequence[Request]:
            answers.extend(replies or ())
            return ()

        keys = keys_of(name)
        requests = [
            Request.of(node, [script.call(keys, links.runs[node], "", *arguments)])
            for node in links.connected()
        ]
        await self.ask_all(links, requests, take, timeout)
        if len(answers) < self._nodes.enough:
            raise self.lost(name)
        return answers

    def lost(self, name: str | None) -> QuorumLost:
        """The error to raise. It says what is wrong with each node."""
        wrong = [text for text in (self._readmission.explain(), self._nodes.explain()) if text]
        error = QuorumLost(
            f"{self._where}: too few of {len(self._nodes.all)} nodes for a majority of "
            f"{self._nodes.enough}: {'; '.join(wrong) or 'they do not answer in time'}",
            outcome="unknown",
            name=name,
        )
        error.__cause__ = self._nodes.problem()
        return error
