"""A connection to a server, and the connections to one server: what an engine needs of them."""

from __future__ import annotations

import logging
import os
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any

from fencelock.core.url import Credentials
from fencelock.engines.failure import RequestFailed
from fencelock.engines.resp.facts import eviction
from fencelock.engines.resp.packing import bulks, pack
from fencelock.engines.resp.wire import Login, greeting, refusal

log = logging.getLogger("fencelock.engine")


class Link(ABC):
    """One connection, subscribed to a channel of its own: wake-ups arrive on it between replies."""

    broken: RequestFailed | bool | None
    """Whether the link takes no more requests, or why."""

    def __init__(self) -> None:
        self.channel = "fencelock:" + os.urandom(8).hex()
        self.packed_channel = bulks(self.channel)
        self.answers: list[Any] = []
        """The answers to the questions of the login."""

    async def greet(self, login: Login, timeout: float, *, scripts: bool) -> None:
        """Send the greeting; `RequestFailed` if the server refuses us."""
        if login.credentials is not None:
            user, password = await self.credentials(login.credentials)
            login = login._replace(user=user, password=password)
        commands = greeting(login, self.channel, scripts=scripts)
        replies = await self.ask(pack(commands), len(commands) - 1, timeout)
        asked = len(replies) - len(login.questions)
        why = refusal(replies[:asked])
        if why is not None:
            raise why
        self.answers = replies[asked:]

    @abstractmethod
    async def credentials(self, provider: Credentials) -> tuple[str | None, str]:
        """Ask for user and password; `RequestFailed` if that fails."""

    @abstractmethod
    def exchange(
        self, payload: bytes, count: int, timeout: float
    ) -> list[Any] | Awaitable[list[Any]]:
        """Send packed commands in one write, and read `count` replies; `RequestFailed` closes the link.

        An error reply is returned as a `hiredis.ReplyError`, not raised. A blocking link returns the replies
        themselves, which saves a coroutine on the hot path.
        """

    async def ask(self, payload: bytes, count: int, timeout: float) -> list[Any]:
        """The same as one coroutine, for code that is not on the hot path."""
        replies = self.exchange(payload, count, timeout)
        return replies if isinstance(replies, list) else await replies

    @abstractmethod
    async def listen(self, waiter: str, timeout: float) -> str | None:
        """Sleep until a wake-up for the ticket `waiter` arrives. None if time is up, or after `dismiss`."""

    @abstractmethod
    def dismiss(self, waiter: str) -> None:
        """End the `listen` for the ticket `waiter`: this link is not the right one any more."""

    @abstractmethod
    def interrupt(self, waiter: str) -> None:
        """End the `listen` for the ticket `waiter`. Called from any thread, while the ticket has the link."""

    @abstractmethod
    def close(self) -> None:
        """Close the connection. A request under way fails."""

    @abstractmethod
    def retire(self) -> None:
        """Take no more requests. Requests under way are answered; a `listen` ends with an error."""


class Node(ABC):
    """One server, and our links to it."""

    def __init__(self, host: str, port: int, login: Login) -> None:
        self.host = host
        self.port = port
        self.is_socket = host.startswith("/")
        """Whether the host is the path of a Unix socket."""
        self.login = login
        self.loaded = False
        """Whether our scripts were loaded once. The server may have lost them since."""
        self._warned = False
        self._closed = False

    def __str__(self) -> str:
        return self.host if self.is_socket else f"{self.host}:{self.port}"

    @abstractmethod
    def ready(self, waiter: str = "") -> Link | None:
        """An open link, if there is one. It collects wake-ups for the ticket `waiter` from now on."""

    @abstractmethod
    async def take(self, timeout: float, waiter: str = "") -> Link:
        """The same, or a new link."""

    @abstractmethod
    def give(self, link: Link, waiter: str = "") -> None:
        """Give a link back. Wake-ups for the ticket `waiter` are not collected any more."""

    @abstractmethod
    async def close(self) -> None:
        """Close every link, and open no more."""

    @contextmanager
    def _connecting(self) -> Iterator[None]:
        """Say that nothing was applied if connecting fails."""
        try:
            yield
        except (OSError, RequestFailed) as error:  # also a TimeoutError
            raise self._not_connected(error) from error

    def _not_connected(self, error: OSError | RequestFailed) -> RequestFailed:
        if isinstance(error, RequestFailed):
            return RequestFailed(str(error), "not applied")
        why = str(error) or type(error).__name__
        if isinstance(error, TimeoutError):
            why = "no answer to TLS" if self.login.tls else "no answer"
        return RequestFailed(f"can't connect to {self}: {why}", "not applied")

    def _connected(self, link: Link) -> None:
        """Note that a new link is ready, and warn if the server can lose locks."""
        self.loaded = True
        policy = None if self._warned else eviction(link.answers)
        if policy is not None:
            self._warned = True
            log.warning(
                "%s: maxmemory-policy is %s: when its memory is full the server forgets locks that are "
                "held, and lets others in; set it to noeviction",
                self,
                policy,
            )


MakeNode = Callable[[str, int, Login], Node]
"""Makes a node from a host, a port and a login."""
