"""Whom to ask: one server of the cluster at a time, the next one as soon as it does not answer."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from fencelock.engines.etcd.messages_pb2 import AuthenticateRequest
from fencelock.engines.etcd.node import Metadata, Node, Stream
from fencelock.engines.etcd.troubles import CallFailed, LoginNeeded
from fencelock.engines.etcd.wire import AUTHENTICATE, Method
from fencelock.io.contract import IO

_TRY = 1.0
"""Seconds after which a server that has not answered is left for another one: it may be frozen."""

_ALIVE = (("hasleader", "true"),)
"""Ask a server to end a stream when it has lost the others: it would say nothing, for ever."""


class Login(NamedTuple):
    user: str
    password: str


class Cluster:
    """All servers answer alike, so we stay with one."""

    def __init__(self, nodes: Sequence[Node], login: Login | None, io: IO) -> None:
        self._nodes = nodes
        self._login = login
        self._io = io
        self._current = 0
        self._metadata: Metadata = ()
        self.on_move: Callable[[], None] = lambda: None
        """Called when the present server has been left."""

    def __len__(self) -> int:
        return len(self._nodes)

    @property
    def node(self) -> Node:
        """The server we ask at present."""
        return self._nodes[self._current]

    async def ask(
        self, method: Method, request: Any, until: float, *, repeatable: bool = False
    ) -> Any:
        """The answer, from whichever server gives one.

        What was certainly not carried out is asked elsewhere; what perhaps was only if it is
        `repeatable`, which means: a second time does no harm even if the first one comes later.
        """
        tried = 0
        doubtful = False
        logged_in = False
        while True:
            node = self.node
            metadata = self._metadata
            try:
                if self._login is not None and not metadata:
                    logged_in = True
                    metadata = await self._log_in(node, until)
                return await node.call(method, request, self._patience(until), metadata)
            except LoginNeeded as error:
                if self._login is None or logged_in:
                    raise
                self._log_out(metadata)
                last: CallFailed = error
            except CallFailed as error:
                tried += error.elsewhere
                doubtful = doubtful or error.outcome == "unknown"
                if error.elsewhere:
                    self.mistrust(node)
                if (
                    not error.elsewhere
                    or (doubtful and not repeatable)
                    or tried >= len(self._nodes)
                ):
                    raise self._in_doubt(error, doubtful) from error.__cause__
                last = error
            if self._io.now() >= until:
                raise self._in_doubt(last, doubtful) from last.__cause__

    async def ask_all(
        self, calls: Sequence[tuple[Method, Any]], until: float
    ) -> list[Any | CallFailed]:
        """Ask several things at the same time that may all be asked again; a failure is an answer."""
        node = self.node
        metadata = self._metadata
        if self._login is not None and not metadata:
            metadata = await self._log_in(node, until)
        answers = await node.call_all(calls, self._patience(until), metadata)
        for index, answer in enumerate(answers):
            if isinstance(answer, LoginNeeded):
                self._log_out(metadata)
            elif not (isinstance(answer, CallFailed) and answer.elsewhere):
                continue
            elif self.node is node:
                self.mistrust(node)
            answers[index] = await self._again(*calls[index], until)
        return answers

    async def _again(self, method: Method, request: Any, until: float) -> Any | CallFailed:
        try:
            return await self.ask(method, request, until, repeatable=True)
        except CallFailed as error:
            return error

    async def watch(self, until: float, idle: Callable[[], bool]) -> tuple[Node, Stream]:
        """Open a stream of watches at the present server."""
        node = self.node
        metadata = self._metadata
        if self._login is not None and not metadata:
            metadata = await self._log_in(node, until)
        return node, node.watch(metadata + _ALIVE, idle)

    def mistrust(self, node: Node) -> None:
        """This server did not answer: ask the next one from now on."""
        if self.node is node and len(self._nodes) > 1:
            self._current = (self._current + 1) % len(self._nodes)
            self.on_move()

    def log_out(self) -> None:
        """Log in anew before the next request."""
        self._metadata = ()

    async def close(self) -> None:
        for node in self._nodes:
            await node.close()

    def _patience(self, until: float) -> float:
        return min(max(until - self._io.now(), 0.001), _TRY)

    def _log_out(self, metadata: Metadata) -> None:
        if self._metadata == metadata:  # else somebody has logged in again already
            self._metadata = ()

    async def _log_in(self, node: Node, until: float) -> Metadata:
        assert self._login is not None
        request = AuthenticateRequest(name=self._login.user, password=self._login.password)
        try:
            answer = await node.call(AUTHENTICATE, request, self._patience(until), ())
        except CallFailed as error:
            # Whatever became of it: what we logged in for was not sent.
            raise CallFailed(str(error), "not applied", elsewhere=error.elsewhere) from error
        self._metadata = (("token", answer.token),)
        return self._metadata

    def _in_doubt(self, error: CallFailed, doubtful: bool) -> CallFailed:
        if doubtful:
            error.outcome = "unknown"
        return error
