"""A line to a replica, and the lines to one replica: what the engine needs of them, and how a line begins."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from ssl import SSLContext
from typing import NamedTuple

import msgspec

from fencelock.core.ticket import WAITING
from fencelock.engines.failure import RequestFailed
from fencelock.engines.http.failures import failure_of, refused
from fencelock.engines.http.websocket import Handshake, Refusal, Stream, Violation
from fencelock.engines.http.wire import (
    GOING_AWAY,
    MAX_MESSAGE,
    SUBPROTOCOL,
    Answer,
    AnyAct,
    Hello,
    Wake,
    decode_message,
)

_DRAINED = "the replica is about to end"


class Login(NamedTuple):
    """How to reach the service at a replica."""

    path: str
    token: str | None = None
    tls: SSLContext | None = None

    def __repr__(self) -> str:
        return "<Login>"


class Greeting:
    """How a line begins, without I/O: the handshake, then the service's `Hello`."""

    def __init__(self, host: str, login: Login) -> None:
        self._handshake = Handshake(host, login.path, SUBPROTOCOL, login.token)
        self._upgraded = False
        self.request = self._handshake.request
        self.stream = Stream(MAX_MESSAGE)

    def feed(self, data: bytes) -> Hello | None:
        """Take in what arrived; None if that is not all. `RequestFailed` if this is no service for us."""
        try:
            if not self._upgraded:
                rest = self._handshake.feed(data)
                if rest is None:
                    return None
                self._upgraded, data = True, rest
            messages = self.stream.feed(data)
            if messages:
                hello = decode_message(messages[0])
                if not isinstance(hello, Hello) or len(messages) > 1:
                    raise Violation("its first message is not a Hello")
                return hello
        except Refusal as refusal:
            raise refused(refusal.status, refusal.body) from refusal
        except (Violation, msgspec.DecodeError) as error:
            why = f"the server there is no lock service of ours: {error}"
            raise RequestFailed(why, "not applied", "not-ours") from error
        if self.stream.closed is not None:
            raise closed(self.stream.closed)
        return None


def closed(code: int) -> RequestFailed:
    """The failure of what was not answered before the service closed the line."""
    if code == GOING_AWAY:  # then it has answered all that it has carried out
        return RequestFailed(_DRAINED, "not applied", "closed")
    return RequestFailed(f"the service closed the line with code {code}", "unknown", "closed")


def waits(answer: Answer) -> bool:
    """Whether this is the answer to the `Enter` of a ticket that must wait."""
    standing = answer.standings[0] if answer.standings else None
    return standing is not None and standing.place is WAITING


class Link(ABC):
    """One line. Wake-ups arrive on it between replies."""

    node: Node
    replica = ""
    """The replica at the other end. There may be a load balancer in between."""
    broken: RequestFailed | bool | None
    """Whether the link takes no more requests, or why."""

    @abstractmethod
    def exchange(self, act: AnyAct, timeout: float, waiter: str = "") -> Answer | Awaitable[Answer]:
        """Ask for an act. `RequestFailed` if there is no answer.

        With `waiter`, the act is an `Enter` of this ticket: if it must wait, its wake-up is collected from
        then on. A blocking link returns the answer itself, which saves a coroutine on the hot path.
        """

    async def ask(self, act: AnyAct, timeout: float) -> Answer:
        """Ask for an act, whatever kind of link it is. Raises what the answer's problem means."""
        answer = self.exchange(act, timeout)
        if not isinstance(answer, Answer):
            answer = await answer
        if answer.problem is not None:
            raise failure_of(answer.problem, None)
        return answer

    @abstractmethod
    async def listen(self, waiter: str, timeout: float) -> Wake | None:
        """Sleep until the wake-up of this ticket. None if time is up, or if none will come."""

    @abstractmethod
    def dismiss(self, waiter: str) -> None:
        """End the `listen` for this ticket: the replica does not answer any more."""

    @abstractmethod
    def interrupt(self, waiter: str) -> None:
        """End the `listen` for this ticket. Called from any thread, while the ticket has the link."""

    @abstractmethod
    def close(self) -> None:
        """Close the line. A request under way fails."""


class Node(ABC):
    """One replica, or a load balancer in front of several; and our links to it."""

    def __init__(self, host: str, port: int, login: Login) -> None:
        self.host = host
        self.port = port
        self.login = login
        self.met: Callable[[Hello], None] = lambda hello: None
        """Called with each `Hello`. It may refuse the replica."""
        self._closed = False

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"

    @abstractmethod
    def ready(self) -> Link | None:
        """An open link, if there is one."""

    @abstractmethod
    async def connect(self, timeout: float) -> Link:
        """A new link; or one that another task has just made."""

    @abstractmethod
    def give(self, link: Link, waiter: str = "") -> None:
        """Give a link back. The wake-up of the ticket `waiter` is not collected any more."""

    @abstractmethod
    async def close(self) -> None:
        """Close every link, and open no more."""

    def _check_open(self) -> None:
        if self._closed:
            raise RequestFailed("the client was closed", "not applied", "client-closed")

    @contextmanager
    def _connecting(self) -> Iterator[None]:
        """Say that nothing was applied if connecting fails."""
        try:
            yield
        except OSError as error:  # also a TimeoutError
            why = str(error) or type(error).__name__
            if isinstance(error, TimeoutError):
                why = "no answer"
            raise RequestFailed(f"can't connect to {self}: {why}", "not applied") from error
        except RequestFailed as error:
            code = "" if error.code == "closed" else error.code
            raise RequestFailed(f"{self}: {error}", "not applied", code) from error
