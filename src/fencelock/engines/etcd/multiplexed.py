"""Calls and a stream that suspend the task."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

import grpc
import grpc.aio

from fencelock.engines.etcd.messages_pb2 import WatchRequest, WatchResponse
from fencelock.engines.etcd.node import BEAT, Metadata, Node, Stream, closed
from fencelock.engines.etcd.troubles import CallFailed, broken
from fencelock.engines.etcd.wire import WATCH, Method


class AsyncioNode(Node):
    """A channel that all tasks of a loop share."""

    grpc = grpc.aio

    async def call(self, method: Method, request: Any, timeout: float, metadata: Metadata) -> Any:
        return await self._answer(self._begin(method, request, timeout, metadata))

    async def call_all(
        self, calls: Sequence[tuple[Method, Any]], timeout: float, metadata: Metadata
    ) -> list[Any | CallFailed]:
        under_way: list[Any] = []
        answers: list[Any | CallFailed] = []
        try:
            for method, request in calls:
                under_way.append(self._begin(method, request, timeout, metadata))
            for call in under_way:
                try:
                    answers.append(await self._answer(call))
                except CallFailed as error:
                    answers.append(error)
        except BaseException:
            for call in under_way:
                call.cancel()
            raise
        return answers

    def watch(self, metadata: Metadata, idle: Callable[[], bool]) -> Stream:
        return _AsyncioStream(self, metadata, idle)

    async def close(self) -> None:
        channel = self._give_up()
        if channel is not None:
            await channel.close()

    def _begin(self, method: Method, request: Any, timeout: float, metadata: Metadata) -> Any:
        call = self._callable(method)
        try:
            return call(request, timeout=timeout, metadata=metadata)
        except grpc.aio.UsageError as error:
            raise closed() from error

    async def _answer(self, call: Any) -> Any:
        task = asyncio.current_task()
        assert task is not None
        cancelled = task.cancelling()
        try:
            return await call
        except grpc.RpcError as error:
            raise self._failed(error) from error
        except asyncio.InvalidStateError as error:  # closed meanwhile
            raise closed("unknown") from error
        except asyncio.CancelledError as error:
            # A channel that is closed cancels its calls, which looks as if somebody had cancelled this task.
            if self._closed and task.cancelling() == cancelled:
                raise closed("unknown") from error
            raise


class _AsyncioStream(Stream):
    def __init__(self, node: AsyncioNode, metadata: Metadata, idle: Callable[[], bool]) -> None:
        self._node = node
        self._idle = idle
        self._outbox: asyncio.Queue[WatchRequest] = asyncio.Queue()
        self._heard = True
        self._silent = self._closed = False
        watch = node.open().stream_stream(WATCH.path, WATCH.pack, WATCH.unpack)
        self._call = watch(metadata=metadata)
        self._writing = asyncio.create_task(self._write(), name="fencelock-watch-requests")

    def send(self, request: WatchRequest) -> None:
        self._outbox.put_nowait(request)

    async def receive(self) -> WatchResponse | None:
        try:
            response = await self._call.read()
        except grpc.RpcError as error:
            if self._closed:
                return None
            if self._silent:
                raise CallFailed(f"no sign of life from {self._node}", "not applied") from error
            raise broken(error, self._node.address) from error
        except asyncio.CancelledError:
            if self._silent:  # that was us
                raise CallFailed(f"no sign of life from {self._node}", "not applied") from None
            if self._closed:
                return None
            raise
        if response is grpc.aio.EOF:
            return None
        self._heard = True
        received: WatchResponse = response
        return received

    def close(self) -> None:
        self._closed = True
        self._call.cancel()
        self._writing.cancel()

    async def ended(self) -> None:
        self.close()
        await asyncio.wait([self._writing])

    async def _write(self) -> None:
        loop = asyncio.get_running_loop()
        beat = loop.time() + BEAT
        try:
            while True:
                try:
                    async with asyncio.timeout_at(beat):
                        request = await self._outbox.get()
                except TimeoutError:
                    if self._idle():
                        self._closed = True
                        self._call.cancel()  # to write no more is not enough: etcd would keep it open
                        return
                    if not self._heard:
                        self._silent = True
                        self._call.cancel()
                        return
                    self._heard = False
                    beat = loop.time() + BEAT
                    request = WatchRequest(progress_request=WatchRequest.Progress())
                await self._call.write(request)
        except (grpc.RpcError, asyncio.InvalidStateError):
            return  # whoever reads learns it as well
