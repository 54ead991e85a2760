"""One server of the cluster: calls, and a stream of watches. Subclasses block a thread or suspend a task."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import grpc

from fencelock.engines.etcd.errors import CallFailed, call_failed, client_closed
from fencelock.engines.etcd.messages_pb2 import WatchRequest, WatchResponse
from fencelock.engines.etcd.wire import WATCH, Method

Metadata = tuple[tuple[str, str], ...]

HEARTBEAT = 1.0
"""Seconds between two signs of life that a stream asks for. A stream that stays silent is given up."""

OPTIONS = (
    ("grpc.primary_user_agent", "fencelock"),
    # A client shares no connections with other clients, so it can do to them what it likes.
    ("grpc.use_local_subchannel_pool", 1),
    ("grpc.enable_http_proxy", 0),
    # `cluster.py` decides what is sent again, and to which server.
    ("grpc.enable_retries", 0),
    ("grpc.service_config_disable_resolution", 1),
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.min_reconnect_backoff_ms", 1_000),
    ("grpc.max_reconnect_backoff_ms", 1_000),
    ("grpc.max_receive_message_length", -1),
    # etcd hangs up on clients that ask more often than every 5 s.
    ("grpc.keepalive_time_ms", 10_000),
    ("grpc.keepalive_timeout_ms", 3_000),
    ("grpc.http2.max_pings_without_data", 0),
)


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

    @abstractmethod
    async def call(self, method: Method, request: Any, timeout: float, metadata: Metadata) -> Any:
        """Send a request and return the answer, or raise `CallFailed`."""

    @abstractmethod
    async def call_all(
        self, calls: Sequence[tuple[Method, Any]], timeout: float, metadata: Metadata
    ) -> list[Any | CallFailed]:
        """Send several requests at the same time. A failure is returned in place of its answer."""

    @abstractmethod
    def watch(self, metadata: Metadata, idle: Callable[[], bool]) -> Stream:
        """Open a stream of watches. It ends by itself once `idle` returns True."""

    @abstractmethod
    async def close(self) -> None:
        """Close the connection, and make no other."""

    def open(self) -> Any:
        """The channel. No I/O happens yet."""
        with self._mutex:
            if self._closed:
                raise client_closed()
            if self._channel is None:
                if self._credentials is None:
                    self._channel = self.grpc.insecure_channel(self.address, options=OPTIONS)
                else:
                    self._channel = self.grpc.secure_channel(
                        self.address, self._credentials, options=OPTIONS
                    )
            return self._channel

    def open_watch(self) -> Any:
        """The callable that opens a stream of watches."""
        return self.open().stream_stream(WATCH.path, WATCH.pack, WATCH.unpack)

    def _callable(self, method: Method) -> Any:
        known = self._callables.get(method.path)
        if known is None:
            known = self.open().unary_unary(method.path, method.pack, method.unpack)
            self._callables[method.path] = known
        return known

    def _take_channel(self) -> Any:
        """Open no more. Returns the channel that the caller must close, or None."""
        with self._mutex:
            self._closed = True
            channel, self._channel = self._channel, None
            return channel

    def _failed(self, error: Any) -> CallFailed:
        """What gRPC's error means for a call."""
        if self._closed and error.code() is grpc.StatusCode.CANCELLED:
            return client_closed("unknown")
        return call_failed(error, self.address)


class Stream(ABC):
    """A stream of watches. Sending never waits."""

    def __init__(self, address: str, idle: Callable[[], bool]) -> None:
        self._address = address
        self._idle = idle
        self._heard = True
        """Whether anything came since the last heartbeat."""
        self._silent = False
        """We gave it up, because nothing came for a whole heartbeat."""
        self._closed = False
        """We closed it."""

    @abstractmethod
    def send(self, request: WatchRequest) -> None:
        """Send a request, after those before."""

    @abstractmethod
    async def receive(self) -> WatchResponse | None:
        """The next message, or None if the stream has ended.

        Raises `CallFailed` if it broke or was silent for too long.
        """

    @abstractmethod
    def close(self) -> None:
        """End the stream. Any thread may call this; `receive` then returns."""

    async def ended(self) -> None:  # noqa: B027 - only one kind has something to wait for
        """Wait until nothing of it runs any more."""

    def _heartbeat(self) -> WatchRequest | None:
        """The request for a sign of life, due now. None if the stream must be cancelled instead.

        It is not enough to send nothing more: etcd would keep the stream open.
        """
        if self._idle():
            self._closed = True
        elif not self._heard:
            self._silent = True
        if self._closed or self._silent:
            return None
        self._heard = False
        return WatchRequest(progress_request=WatchRequest.Progress())

    def _broke(self, error: BaseException) -> CallFailed | None:
        """Why `receive` failed. None if that was our own `close`."""
        if self._closed:
            return None
        if self._silent:
            return CallFailed(f"no sign of life from {self._address}", "not applied")
        return call_failed(error, self._address)
