"""Calls that block the thread, and a stream that a thread reads."""

from __future__ import annotations

import queue
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import Any, TypeVar

import grpc

from fencelock.engines.etcd.errors import CallFailed, client_closed
from fencelock.engines.etcd.messages_pb2 import WatchRequest, WatchResponse
from fencelock.engines.etcd.node import HEARTBEAT, Metadata, Node, Stream
from fencelock.engines.etcd.wire import Method
from fencelock.io import clock
from fencelock.io.shelter import aside, sheltered

T = TypeVar("T")

_GRACE = 5.0
"""Seconds that a call into gRPC may take beyond its timeout. After that we take it for hung."""


class BlockingNode(Node):
    """A channel that many threads share. The main thread never enters gRPC itself: see `io/shelter.py`."""

    grpc = grpc

    async def call(self, method: Method, request: Any, timeout: float, metadata: Metadata) -> Any:
        return self._sheltered(timeout, self._call, method, request, timeout, metadata)

    async def call_all(
        self, calls: Sequence[tuple[Method, Any]], timeout: float, metadata: Metadata
    ) -> list[Any | CallFailed]:
        return self._sheltered(timeout, self._call_all, calls, timeout, metadata)

    def watch(self, metadata: Metadata, idle: Callable[[], bool]) -> Stream:
        return _BlockingStream(self, metadata, idle)

    async def close(self) -> None:
        channel = self._take_channel()
        if channel is not None:
            with suppress(TimeoutError):  # if gRPC hangs, the caller must not hang with it
                aside(_GRACE, channel.close)

    def _sheltered(self, timeout: float, function: Callable[..., T], *args: Any) -> T:
        try:
            return sheltered(timeout + _GRACE, function, *args)
        except TimeoutError as error:
            raise CallFailed(f"no answer from {self.address}", "unknown", elsewhere=True) from error

    def _call(self, method: Method, request: Any, timeout: float, metadata: Metadata) -> Any:
        call = self._callable(method)
        try:
            return call(request, timeout=timeout, metadata=metadata)
        except grpc.RpcError as error:
            raise self._failed(error) from error
        except ValueError as error:  # the channel was closed meanwhile
            raise client_closed() from error

    def _call_all(
        self, calls: Sequence[tuple[Method, Any]], timeout: float, metadata: Metadata
    ) -> list[Any | CallFailed]:
        try:
            futures = [
                self._callable(method).future(request, timeout=timeout, metadata=metadata)
                for method, request in calls
            ]
        except ValueError as error:  # the channel was closed meanwhile
            raise client_closed() from error
        return [self._answer(future) for future in futures]

    def _answer(self, future: Any) -> Any | CallFailed:
        try:
            return future.result()
        except grpc.RpcError as error:
            return self._failed(error)
        except grpc.FutureCancelledError:
            return client_closed("unknown")


class _BlockingStream(Stream):
    """gRPC takes our requests from an iterator, in a thread of its own. That thread sends the heartbeats."""

    def __init__(self, node: BlockingNode, metadata: Metadata, idle: Callable[[], bool]) -> None:
        super().__init__(node.address, idle)
        self._outbox: queue.SimpleQueue[WatchRequest] = queue.SimpleQueue()
        watch = node.open_watch()
        try:
            self._call = watch(self._requests(), metadata=metadata)
        except ValueError as error:  # the channel was closed meanwhile
            raise client_closed() from error

    def send(self, request: WatchRequest) -> None:
        self._outbox.put(request)

    async def receive(self) -> WatchResponse | None:
        try:
            response: WatchResponse = next(self._call)
        except StopIteration:
            return None
        except grpc.RpcError as error:
            if (failure := self._broke(error)) is None:
                return None
            raise failure from error
        self._heard = True
        return response

    def close(self) -> None:
        self._closed = True
        with suppress(TimeoutError):
            sheltered(_GRACE, self._call.cancel)

    def _requests(self) -> Iterator[WatchRequest]:
        due = clock.now() + HEARTBEAT
        while True:
            try:
                yield self._outbox.get(timeout=max(0.0, due - clock.now()))
            except queue.Empty:
                heartbeat = self._heartbeat()
                if heartbeat is None:
                    self._call.cancel()
                    return
                due = clock.now() + HEARTBEAT
                yield heartbeat
