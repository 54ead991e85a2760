"""What the engine needs of one server of the cluster: calls, and a stream of watches."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import grpc

from fencelock.core.errors import Outcome
from fencelock.engines.etcd.messages_pb2 import WatchRequest, WatchResponse
from fencelock.engines.etcd.troubles import CallFailed, broken
from fencelock.engines.etcd.wire import Method

Metadata = tuple[tuple[str, str], ...]

BEAT = 1.0
"""Seconds between two signs of life that a stream asks for. One that stays silent is given up."""

OPTIONS = (
    ("grpc.primary_user_agent", "fencelock"),
    # What one client does to its connections is its own affair.
    ("grpc.use_local_subchannel_pool", 1),
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


class Stream(ABC):
    """A stream of watches. Whoever writes to it never waits."""

    @abstractmethod
    def send(self, request: WatchRequest) -> None:
        """Write, in order."""

    @abstractmethod
    async def receive(self) -> WatchResponse | None:
        """The next message; None: it has ended. `CallFailed`: it broke, or was silent for too long."""

    @abstractmethod
    def close(self) -> None:
        """End it from whatever thread; whoever receives wakes up."""

    async def ended(self) -> None:  # noqa: B027 - only one kind has something to wait for
        """Wait until nothing of it runs any more."""


class Node(ABC):
    """One server, and our connection to it, which is made when it is first needed."""

    grpc: ClassVar[Any]
    """The half of gRPC that makes the channels: `grpc` or `grpc.aio`."""

    def __init__(self, address: str, credentials: grpc.ChannelCredentials | None) -> None:
        self.address = address
        self._credentials = credentials
        self._mutex = threading.Lock()  # never held across an await, so it serves every io
        self._channel: Any = None
        self._callables: dict[str, Any] = {}
        self._closed = False

    def __str__(self) -> str:
        return self.address

    @abstractmethod
    async def call(self, method: Method, request: Any, timeout: float, metadata: Metadata) -> Any:
        """Ask, and wait for the answer; or `CallFailed`."""

    @abstractmethod
    async def call_all(
        self, calls: Sequence[tuple[Method, Any]], timeout: float, metadata: Metadata
    ) -> list[Any | CallFailed]:
        """Ask several things at the same time; a failure is an answer."""

    @abstractmethod
    def watch(self, metadata: Metadata, idle: Callable[[], bool]) -> Stream:
        """Open a stream of watches. It ends by itself once `idle` says that nobody needs it."""

    @abstractmethod
    async def close(self) -> None:
        """Close the connection, and make no other."""

    def open(self) -> Any:
        """The channel; no I/O happens yet."""
        with self._mutex:
            if self._closed:
                raise closed()
            if self._channel is None:
                if self._credentials is None:
                    self._channel = self.grpc.insecure_channel(self.address, options=OPTIONS)
                else:
                    self._channel = self.grpc.secure_channel(
                        self.address, self._credentials, options=OPTIONS
                    )
            return self._channel

    def _callable(self, method: Method) -> Any:
        known = self._callables.get(method.path)
        if known is None:
            known = self.open().unary_unary(method.path, method.pack, method.unpack)
            self._callables[method.path] = known
        return known

    def _give_up(self) -> Any:
        """Open no more; the channel that is to be closed, if there is one."""
        with self._mutex:
            self._closed = True
            channel, self._channel = self._channel, None
            return channel

    def _failed(self, error: Any) -> CallFailed:
        """What it means that a call failed."""
        if self._closed and error.code() is grpc.StatusCode.CANCELLED:
            return closed("unknown")
        return broken(error, self.address)


def closed(outcome: Outcome = "not applied") -> CallFailed:
    return CallFailed("the client was closed", outcome)
