"""Calls and a stream that suspend the task."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Sequence
from typing import Any

import grpc
import grpc.aio
from grpc import ChannelCredentials

from fencelock.core.errors import Unsupported
from fencelock.engines.etcd.errors import CallFailed, client_closed
from fencelock.engines.etcd.messages_pb2 import WatchRequest, WatchResponse
from fencelock.engines.etcd.node import HEARTBEAT, Metadata, Node, Stream
from fencelock.engines.etcd.wire import Method

_used_in: set[int] = set()
"""The processes that have used `grpc.aio`: this one, and those from which it was forked."""


class AsyncioNode(Node):
    """A channel that all tasks of a loop share."""

    grpc = grpc.aio

    def __init__(self, address: str, credentials: ChannelCredentials | None) -> None:
        # The parent's poller thread was inside gRPC during the fork. So gRPC skipped its fork handlers, and
        # every call would hang for ever.
        if _used_in - {os.getpid()}:
            raise Unsupported(
                "etcd with asyncio does not work in a forked child of a process that has used it: fork "
                "before the first use, or start processes with the method 'spawn'"
            )
        super().__init__(address, credentials)

    def open(self) -> Any:
        _used_in.add(os.getpid())
        return super().open()

    async def call(self, method: Method, request: Any, timeout: float, metadata: Metadata) -> Any:
        task = asyncio.current_task()
        assert task is not None
        cancelled = task.cancelling()
        try:
            return await self._callable(method)(request, timeout=timeout, metadata=metadata)
        except grpc.aio.UsageError as error:  # the channel was closed before the call began
            raise client_closed() from error
        except grpc.RpcError as error:
            raise self._failed(error) from error
        except asyncio.InvalidStateError as error:  # the channel was closed meanwhile
            raise client_closed("unknown") from error
        except asyncio.CancelledError as error:
            # A channel that is closed cancels its calls. That looks as if this task had been cancelled.
            if self._closed and task.cancelling() == cancelled:
                raise client_closed("unknown") from error
            raise

    async def call_all(
        self, calls: Sequence[tuple[Method, Any]], timeout: float, metadata: Metadata
    ) -> list[Any | CallFailed]:
        async def answer(method: Method, request: Any) -> Any | CallFailed:
            try:
                return await self.call(method, request, timeout, metadata)
            except CallFailed as error:
                return error

        return await asyncio.gather(*(answer(*call) for call in calls))

    def watch(self, metadata: Metadata, idle: Callable[[], bool]) -> Stream:
        return _AsyncioStream(self, metadata, idle)

    async def close(self) -> None:
        channel = self._take_channel()
        if channel is not None:
            await channel.close()


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
