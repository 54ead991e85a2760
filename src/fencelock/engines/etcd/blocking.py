"""Calls that block the thread, and a stream that a thread reads."""

from __future__ import annotations

import queue
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import Any, TypeVar

import grpc

from fencelock.engines.etcd.messages_pb2 import WatchRequest, WatchResponse
from fencelock.engines.etcd.node import BEAT, Metadata, Node, Stream, closed
from fencelock.engines.etcd.troubles import CallFailed, broken
from fencelock.engines.etcd.wire import WATCH, Method
from fencelock.io import clock
from fencelock.io.shelter import aside, sheltered

T = TypeVar("T")

_GRACE = 5.0
"""Seconds after which gRPC, which keeps to its deadlines, must have answered: it hangs."""


class BlockingNode(Node):
    """A channel that many threads share. The main thread never enters gRPC itself: see `io/shelter.py`."""

    grpc = grpc

    async def call(self, method: Method, request: Any, timeout: float, metadata: Metadata) -> Any:
        return self._safely(timeout, self._call, method, request, timeout, metadata)

    async def call_all(
        self, calls: Sequence[tuple[Method, Any]], timeout: float, metadata: Metadata
    ) -> list[Any | CallFailed]:
        return self._safely(timeout, self._call_all, calls, timeout, metadata)

    def watch(self, metadata: Metadata, idle: Callable[[], bool]) -> Stream:
        return _BlockingStream(self, metadata, idle)

    async def close(self) -> None:
        channel = self._give_up()
        if channel is not None:
            with suppress(TimeoutError):  # whatever hangs there, those who close it do not
                aside(_GRACE, channel.close)

    def _safely(self, timeout: float, function: Callable[..., T], *args: Any) -> T:
        try:
            return sheltered(timeout + _GRACE, function, *args)
        except TimeoutError as error:
            raise CallFailed(f"no answer from {self}", "unknown", elsewhere=True) from error

    def _call(self, method: Method, request: Any, timeout: float, metadata: Metadata) -> Any:
        call = self._callable(method)
        try:
            return call(request, timeout=timeout, metadata=metadata)
        except grpc.RpcError as error:
            raise self._failed(error) from error
        except ValueError as error:  # it was closed meanwhile
            raise closed() from error

    def _call_all(
        self, calls: Sequence[tuple[Method, Any]], timeout: float, metadata: Metadata
    ) -> list[Any | CallFailed]:
        try:
            under_way = [
                self._callable(method).future(request, timeout=timeout, metadata=metadata)
                for method, request in calls
            ]
        except ValueError as error:
            raise closed() from error
        return [self._answer(future) for future in under_way]

    def _answer(self, future: Any) -> Any | CallFailed:
        try:
            return future.result()
        except grpc.RpcError as error:
            return self._failed(error)
        except grpc.FutureCancelledError:
            return closed("unknown")


class _BlockingStream(Stream):
    """gRPC takes what we write from an iterator, in a thread of its own: there the heart beats."""

    def __init__(self, node: BlockingNode, metadata: Metadata, idle: Callable[[], bool]) -> None:
        self._node = node
        self._idle = idle
        self._outbox: queue.SimpleQueue[WatchRequest] = queue.SimpleQueue()
        self._heard = True
        self._silent = self._closed = False
        watch = node.open().stream_stream(WATCH.path, WATCH.pack, WATCH.unpack)
        try:
            self._call = watch(self._requests(), metadata=metadata)
        except ValueError as error:
            raise closed() from error

    def send(self, request: WatchRequest) -> None:
        self._outbox.put(request)

    async def receive(self) -> WatchResponse | None:
        try:
            response: WatchResponse = next(self._call)
        except StopIteration:
            return None
        except grpc.RpcError as error:
            if self._closed:
                return None
            if self._silent:
                raise CallFailed(f"no sign of life from {self._node}", "not applied") from error
            raise broken(error, self._node.address) from error
        self._heard = True
        return response

    def close(self) -> None:
        self._closed = True
        with suppress(TimeoutError):
            sheltered(_GRACE, self._call.cancel)

    def _requests(self) -> Iterator[WatchRequest]:
        beat = clock.now() + BEAT
        while True:
            try:
                yield self._outbox.get(timeout=max(0.0, beat - clock.now()))
            except queue.Empty:
                if self._idle():
                    self.close()  # to write no more is not enough: etcd would keep it open
                if self._closed:
                    return
                if not self._heard:
                    self._silent = True
                    self._call.cancel()
                    return
                self._heard = False
                beat = clock.now() + BEAT
                yield WatchRequest(progress_request=WatchRequest.Progress())
