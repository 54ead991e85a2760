"""What the engine needs of a connection, and of the connections to one server."""

from __future__ import annotations

import logging
import os
from abc import ABC, abstractmethod
from collections.abc import Awaitable
from typing import Any

from fencelock.engines.failure import RequestFailed
from fencelock.engines.resp.facts import eviction
from fencelock.engines.resp.packing import bulks
from fencelock.engines.resp.wire import Login, refusal

log = logging.getLogger("fencelock")


class Link(ABC):
    """One connection, subscribed to a channel of its own: wake-ups arrive on it between replies."""

    broken: RequestFailed | bool | None
    """Whether it takes no more requests, or why."""

    def __init__(self) -> None:
        self.channel = "fencelock:" + os.urandom(8).hex()
        self.packed_channel = bulks(self.channel)
        self.answers: list[Any] = []
        """To the questions of the login."""

    def _welcomed(self, login: Login, replies: list[Any]) -> None:
        """Take in the replies to the greeting; `RequestFailed` if the server does not want us."""
        asked = len(replies) - len(login.questions)
        why = refusal(replies[:asked])
        if why is not None:
            raise why
        self.answers = replies[asked:]

    @abstractmethod
    def exchange(
        self, payload: bytes, count: int, timeout: float
    ) -> list[Any] | Awaitable[list[Any]]:
        """Send packed commands in one write and read so many replies; `RequestFailed` closes the link.

        A reply that is an error is returned as a `hiredis.ReplyError`, not raised. A link that blocks has
        the replies when it returns: there is no need for a coroutine around them.
        """

    async def ask(self, payload: bytes, count: int, timeout: float) -> list[Any]:
        """The same for all who are not in a hurry."""
        replies = self.exchange(payload, count, timeout)
        return replies if isinstance(replies, list) else await replies

    @abstractmethod
    def close(self) -> None:
        """Close it; a request under way fails."""

    @abstractmethod
    def retire(self) -> None:
        """Use it no more: whoever waits on it looks again, but requests under way are answered."""


class Node(ABC):
    """One server, and our links to it."""

    def __init__(self, host: str, port: int, login: Login) -> None:
        self.host = host
        self.port = port
        self.login = login
        self.loaded = False
        """Whether our scripts were brought to it; it may have forgotten them since."""
        self._warned = False
        self._closed = False

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"

    @abstractmethod
    def ready(self, waiter: str = "") -> Link | None:
        """A link that is there already; wake-ups for the ticket `waiter` are collected on it from now on."""

    @abstractmethod
    async def take(self, timeout: float, waiter: str = "") -> Link:
        """The same, or a new one."""

    @abstractmethod
    def give(self, link: Link, waiter: str = "") -> None:
        """Give a link back; wake-ups for `waiter` are of no interest any more."""

    @abstractmethod
    async def listen(self, link: Link, waiter: str, timeout: float) -> str | None:
        """Sleep until a wake-up for the ticket `waiter` arrives on its link, or None."""

    @abstractmethod
    def dismiss(self, link: Link, waiter: str) -> None:
        """Have the one that listens on its link for the ticket `waiter` stop and look elsewhere."""

    @abstractmethod
    def interrupt(self, link: Link, waiter: str) -> None:
        """Have it stop and look again. Called from any thread, while nobody else has the link."""

    @abstractmethod
    async def close(self) -> None:
        """Close every link, and open no more."""

    def _met(self, link: Link) -> None:
        """A new link is ready for use."""
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

    def _unreachable(self, error: OSError) -> RequestFailed:
        why = str(error) or type(error).__name__
        if isinstance(error, TimeoutError):
            why = "no answer to TLS" if self.login.tls else "no answer"
        return RequestFailed(f"can't connect to {self}: {why}", "not applied")
