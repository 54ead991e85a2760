"""Calls that block the thread, and a stream that a thread reads."""

from __future__ import annotations

import queue
from collections.abc import Callable, Iterator
from typing import Any

import grpc

from fencelock.engines.etcd.messages_pb2 import WatchRequest, WatchResponse
from fencelock.engines.etcd.node import BEAT, Metadata, Node, Pending, Stream, closed
from fencelock.engines.etcd.troubles import Broken, broken
from fencelock.engines.etcd.wire import WATCH, Method
from fencelock.io import clock


class BlockingNode(Node):
    """A channel that many threads share."""

    grpc = grpc

    async def call(self, method: Method, request: Any, timeout: float, metadata: Metadata) -> Any:
        call = self._callable(method)
        try:
            return call(request, timeout=timeout, metadata=metadata)
        except grpc.RpcError as error:
            raise broken(error, self.address) from error
        except ValueError as error:  # it was closed meanwhile
            raise closed() from error

    def begin(self, method: Method, request: Any, timeout: float, metadata: Metadata) -> Pending:
        call = self._callable(method)
        try:
            return _BlockingPending(call.future(request, timeout=timeout, metadata=metadata), self)
        except ValueError as error:
            raise closed() from error

    def watch(self, metadata: Metadata, idle: Callable[[], bool]) -> Stream:
        return _BlockingStream(self, metadata, idle)

    async def close(self) -> None:
        channel = self._give_up()
        if channel is not None:
            channel.close()


class _BlockingPending(Pending):
    def __init__(self, future: Any, node: Node) -> None:
        self._future = future
        self._node = node

    async def result(self) -> Any:
        try:
            return self._future.result()
        except grpc.RpcError as error:
            raise broken(error, self._node.address) from error
        except grpc.FutureCancelledError as error:
            raise closed() from error

    def cancel(self) -> None:
        self._future.cancel()


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
                raise Broken(f"no sign of life from {self._node}", "not applied") from error
            raise broken(error, self._node.address) from error
        self._heard = True
        return response

    def close(self) -> None:
        self._closed = True
        self._call.cancel()

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
