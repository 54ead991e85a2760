"""Calls and a stream that suspend the task."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

import grpc
import grpc.aio

from fencelock.engines.etcd.errors import CallFailed, client_closed
from fencelock.engines.etcd.messages_pb2 import WatchRequest, WatchResponse
from fencelock.engines.etcd.node import HEARTBEAT, Metadata, Node, Stream
from fencelock.engines.etcd.wire import Method


class AsyncioNode(Node):
    """A channel that all tasks of a loop share."""

    grpc = grpc.aio

    async def call(self, method: Method, request: Any, timeout: float, metadata: Metadata) -> Any:
        return await self._answer(self._begin(method, request, timeout, metadata))

    async def call_all(
        self, calls: Sequence[tuple[Method, Any]], timeout: float, metadata: Metadata
    ) -> list[Any | CallFailed]:
        begun: list[Any] = []
        answers: list[Any | CallFailed] = []
        try:
            for method, request in calls:
                begun.append(self._begin(method, request, timeout, metadata))
            for call in begun:
                try:
                    answers.append(await self._answer(call))
                except CallFailed as error:
                    answers.append(error)
        except BaseException:
            for call in begun:
                call.cancel()
            raise
        return answers

    def watch(self, metadata: Metadata, idle: Callable[[], bool]) -> Stream:
        return _AsyncioStream(self, metadata, idle)

    async def close(self) -> None:
        channel = self._take_channel()
        if channel is not None:
            await channel.close()

    def _begin(self, method: Method, request: Any, timeout: float, metadata: Metadata) -> Any:
        call = self._callable(method)
        try:
            return call(request, timeout=timeout, metadata=metadata)
        except grpc.aio.UsageError as error:
            raise client_closed() from error

    async def _answer(self, call: Any) -> Any:
        task = asyncio.current_task()
        assert task is not None
        cancelled = task.cancelling()
        try:
            return await call
        except grpc.RpcError as error:
            raise self._failed(error) from error
        except asyncio.InvalidStateError as error:  # the channel was closed meanwhile
            raise client_closed("unknown") from error
        except asyncio.CancelledError as error:
            # A channel that is closed cancels its calls. That looks as if this task had been cancelled.
            if self._closed and task.cancelling() == cancelled:
                raise client_closed("unknown") from error
            raise


class _AsyncioStream(Stream):
    """A task of its own sends our requests and the heartbeats."""

    def __init__(self, node: AsyncioNode, metadata: Metadata, idle: Callable[[], bool]) -> None:
        super().__init__(node.address, idle)
        self._outbox: asyncio.Queue[WatchRequest] = asyncio.Queue()
        self._call = node.open_watch()(metadata=metadata)
        self._writing = asyncio.create_task(self._write(), name="fencelock-watch-requests")

    def send(self, request: WatchRequest) -> None:
        self._outbox.put_nowait(request)

    async def receive(self) -> WatchResponse | None:
        try:
            response = await self._call.read()
        except (grpc.RpcError, asyncio.CancelledError) as error:
            cancelled = isinstance(error, asyncio.CancelledError)
            if cancelled and not (self._closed or self._silent):
                raise  # this task was cancelled; in the other cases we cancelled the stream
            if (failure := self._broke(error)) is None:
                return None
            raise failure from (None if cancelled else error)
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
        due = loop.time() + HEARTBEAT
        try:
            while True:
                try:
                    async with asyncio.timeout_at(due):
                        request = await self._outbox.get()
                except TimeoutError:
                    heartbeat = self._heartbeat()
                    if heartbeat is None:
                        self._call.cancel()
                        return
                    request = heartbeat
                    due = loop.time() + HEARTBEAT
                await self._call.write(request)
        except (grpc.RpcError, asyncio.InvalidStateError):
            return  # `receive` learns it as well
