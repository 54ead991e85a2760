"""What the engine needs of one server of the cluster: calls, and a stream of watches."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

import grpc

from holdfast.engines.etcd.messages_pb2 import WatchRequest, WatchResponse
from holdfast.engines.etcd.troubles import Broken
from holdfast.engines.etcd.wire import Method

Metadata = tuple[tuple[str, str], ...]

BEAT = 1.0
"""Seconds between two signs of life that a stream asks for. One that stays silent is given up."""

OPTIONS = (
    ("grpc.primary_user_agent", "holdfast"),
    (
        "grpc.use_local_subchannel_pool",
        1,
    ),  # what one client does to its connections is its own affair
    ("grpc.enable_http_proxy", 0),
    # We decide what is sent again, and where.
    ("grpc.enable_retries", 0),
    ("grpc.service_config_disable_resolution", 1),
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.min_reconnect_backoff_ms", 1_000),
    ("grpc.max_reconnect_backoff_ms", 1_000),
    ("grpc.max_receive_message_length", -1),
    # etcd hangs up on those who ask more often than every 5 s.
    ("grpc.keepalive_time_ms", 10_000),
    ("grpc.keepalive_timeout_ms", 3_000),
    ("grpc.http2.max_pings_without_data", 0),
)


class Pending(ABC):
    """A call that is under way."""

    @abstractmethod
    async def result(self) -> Any:
        """Its answer, or `Broken`."""

    @abstractmethod
    def cancel(self) -> None:
        """Nobody is interested any more."""


class Stream(ABC):
    """A stream of watches. Whoever writes to it never waits."""

    @abstractmethod
    def send(self, request: WatchRequest) -> None:
        """Write, in order."""

    @abstractmethod
    async def receive(self) -> WatchResponse | None:
        """The next message; None: it has ended. `Broken`: it broke, or was silent for too long."""

    @abstractmethod
    def close(self) -> None:
        """End it from whatever thread; whoever receives wakes up."""

    async def ended(self) -> None:  # noqa: B027 - only one kind has something to wait for
        """Wait until nothing of it runs any more."""


class Node(ABC):
    """One server, and our connection to it, which is made when it is first needed."""

    def __init__(self, address: str, credentials: grpc.ChannelCredentials | None) -> None:
        self.address = address
        self._credentials = credentials

    def __str__(self) -> str:
        return self.address

    @abstractmethod
    async def call(self, method: Method, request: Any, timeout: float, metadata: Metadata) -> Any:
        """Ask, and wait for the answer; or `Broken`."""

    @abstractmethod
    def begin(self, method: Method, request: Any, timeout: float, metadata: Metadata) -> Pending:
        """Ask, and wait later."""

    @abstractmethod
    def watch(self, metadata: Metadata, idle: Callable[[], bool]) -> Stream:
        """Open a stream of watches. It ends by itself once `idle` says that nobody needs it."""

    @abstractmethod
    async def close(self) -> None:
        """Close the connection, and make no other."""


def closed() -> Broken:
    return Broken("the client was closed", "not applied")
