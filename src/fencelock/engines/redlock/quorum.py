"""A majority of the nodes: lines to it, its answers, and what to say if there is none."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from fencelock.core.errors import EngineError, QuorumLost
from fencelock.engines.failure import RequestFailed
from fencelock.engines.redlock.asking import Request, Take, ask
from fencelock.engines.redlock.lines import Lines
from fencelock.engines.redlock.members import Members
from fencelock.engines.redlock.scripts import keys_of
from fencelock.engines.redlock.welcoming import Host
from fencelock.engines.resp.script import Script


class Quorum:
    """The nodes as one server, of which most parts must be there."""

    def __init__(self, members: Members, host: Host, where: str) -> None:
        self._members = members
        self._host = host
        self._where = where

    async def take(
        self,
        name: str | None,
        timeout: float,
        kept: Lines | None = None,
        before: Lines | None = None,
    ) -> Lines:
        """Lines to a majority at least; `name` is for the message if there is none."""
        try:
            lines = await self._members.take(timeout, kept, before)
        except RequestFailed as error:
            raise EngineError(
                f"{self._where}: {error}", outcome=error.outcome, name=name
            ) from error
        if None in lines.links and len(lines.up()) < self._members.enough:
            self._members.give(lines)
            raise self.lost(name)
        return lines

    async def ask(
        self,
        lines: Lines,
        requests: Sequence[Request],
        take: Take,
        decided: Callable[[], bool],
        timeout: float,
    ) -> None:
        """Ask, and give the lines back."""
        patience = min(self._members.node_timeout, timeout)
        try:
            await ask(self._members, lines, requests, take, decided, patience)
        except BaseException:
            self._members.discard(lines)
            raise
        self._members.give(lines)

    async def ask_all(
        self, name: str, script: Script, timeout: float, *arguments: str
    ) -> list[Any]:
        """The answers of all nodes, at least of a majority."""
        lines = await self.take(name, timeout)
        answers: list[Any] = []

        def take(node: int, replies: list[Any] | None) -> Sequence[Request]:
            answers.extend(replies or ())
            return ()

        keys = keys_of(name)
        requests = [
            Request.of(node, [script.call(keys, lines.runs[node], "", *arguments)])
            for node in lines.up()
        ]
        nodes = len(self._members.all)
        await self.ask(lines, requests, take, lambda: len(answers) == nodes, timeout)
        if len(answers) < self._members.enough:
            raise self.lost(name)
        return answers

    def lost(self, name: str | None) -> QuorumLost:
        """The error to raise: it says what is wrong with each node."""
        wrong = [text for text in (self._host.explain(), self._members.explain()) if text]
        error = QuorumLost(
            f"{self._where}: too few of {len(self._members.all)} nodes for a majority of "
            f"{self._members.enough}: {'; '.join(wrong) or 'they do not answer in time'}",
            outcome="unknown",
            name=name,
        )
        error.__cause__ = self._members.trouble()
        return error
