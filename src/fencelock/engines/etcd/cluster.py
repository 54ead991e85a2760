"""Sends each request to one server of the cluster, and to the next server if the first does not answer."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from fencelock.engines.etcd.errors import CallFailed, LoginNeeded
from fencelock.engines.etcd.messages_pb2 import (
    AuthenticateRequest,
    RangeRequest,
    RangeResponse,
    TxnRequest,
    TxnResponse,
)
from fencelock.engines.etcd.node import Metadata, Node, Stream
from fencelock.engines.etcd.wire import AUTHENTICATE, RANGE, TXN, Method
from fencelock.io.contract import IO

_TRY_TIMEOUT = 1.0
"""Seconds that one server gets to answer, before we ask another one: the first may be frozen."""

_NEEDS_LEADER = (("hasleader", "true"),)
"""Asks a server to end a stream when it has lost the others. Otherwise it stays silent for ever."""


class Cluster:
    """The servers. All of them answer alike, so we stay with one as long as it answers."""

    def __init__(self, nodes: Sequence[Node], login: AuthenticateRequest | None, io: IO) -> None:
        self._nodes = nodes
        self._login = login
        self._io = io
        self._current = 0
        self._token: Metadata = ()
        self.on_move: Callable[[], None] = lambda: None
        """Called when we have left the current server for another one."""

    def __len__(self) -> int:
        return len(self._nodes)

    @property
    def nodes(self) -> Sequence[Node]:
        """All servers."""
        return self._nodes

    @property
    def node(self) -> Node:
        """The server that we ask at present."""
        return self._nodes[self._current]

    async def txn(
        self, request: TxnRequest, until: float, *, repeatable: bool = False
    ) -> TxnResponse:
        answer: TxnResponse = await self.ask(TXN, request, until, repeatable=repeatable)
        return answer

    async def read(self, request: RangeRequest, until: float) -> RangeResponse:
        answer: RangeResponse = await self.ask(RANGE, request, until, repeatable=True)
        return answer

    async def ask(
        self, method: Method, request: Any, until: float, *, repeatable: bool = False
    ) -> Any:
        """Send a request, and return the answer of the first server that gives one.

        A request that was certainly not applied goes to the next server. A request that was perhaps
        applied does so only if it is `repeatable`: a second one does no harm, even if the first one
        arrives later.
        """
        left = len(self._nodes)
        doubtful = refused = False
        while True:
            node = self.node
            token = self._token
            try:
                token = await self._logged_in(node, until)
                return await node.call(method, request, self._timeout(until), token)
            except CallFailed as error:
                doubtful = doubtful or error.outcome == "unknown"
                if doubtful:
                    error.outcome = "unknown"
                if isinstance(error, LoginNeeded):
                    again = self._login is not None and not refused
                    refused = True
                    self._forget_token(token)
                else:
                    left -= 1
                    again = error.elsewhere and left > 0 and (repeatable or not doubtful)
                    if error.elsewhere:
                        self.leave(node)
                if not again or self._io.now() >= until:
                    raise

    async def ask_at(self, node: Node, method: Method, request: Any, timeout: float) -> Any:
        """Send a question to this server and to no other one."""
        until, refused = self._io.now() + timeout, False
        while True:
            token = self._token
            try:
                token = await self._logged_in(node, until)
                return await node.call(method, request, max(until - self._io.now(), 0.001), token)
            except LoginNeeded:
                self._forget_token(token)
                if refused or self._login is None:
                    raise
                refused = True

    async def ask_all(
        self, calls: Sequence[tuple[Method, Any]], until: float
    ) -> list[Any | CallFailed]:
        """Send several repeatable requests at the same time. A failure is returned in place of its answer."""
        node = self.node
        token = await self._logged_in(node, until)
        answers = await node.call_all(calls, self._timeout(until), token)
        for index, answer in enumerate(answers):
            if isinstance(answer, LoginNeeded):
                self._forget_token(token)
            elif isinstance(answer, CallFailed) and answer.elsewhere:
                self.leave(node)
            else:
                continue
            method, request = calls[index]
            try:
                answers[index] = await self.ask(method, request, until, repeatable=True)
            except CallFailed as error:
                answers[index] = error
        return answers

    async def watch(self, until: float, idle: Callable[[], bool]) -> tuple[Node, Stream]:
        """Open a stream of watches at the current server."""
        node = self.node
        token = await self._logged_in(node, until)
        return node, node.watch(token + _NEEDS_LEADER, idle)

    def leave(self, node: Node) -> None:
        """This server did not answer. If it is the current one, ask the next one from now on."""
        if self.node is node and len(self._nodes) > 1:
            self._current = (self._current + 1) % len(self._nodes)
            self.on_move()

    def log_out(self) -> None:
        """Log in anew before the next request."""
        self._token = ()

    async def close(self) -> None:
        for node in self._nodes:
            await node.close()

    def _timeout(self, until: float) -> float:
        return min(max(until - self._io.now(), 0.001), _TRY_TIMEOUT)

    def _forget_token(self, token: Metadata) -> None:
        if self._token == token:  # else another caller has logged in again already
            self._token = ()

    async def _logged_in(self, node: Node, until: float) -> Metadata:
        if self._token or self._login is None:
            return self._token
        try:
            answer = await node.call(AUTHENTICATE, self._login, self._timeout(until), ())
        except CallFailed as error:
            # Whatever became of the login: the request that needs it was not sent.
            raise CallFailed(str(error), "not applied", elsewhere=error.elsewhere) from error
        self._token = (("token", answer.token),)
        return self._token
