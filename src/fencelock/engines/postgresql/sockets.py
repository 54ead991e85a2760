"""How to wait for a socket: by blocking the thread, or by suspending the task."""

from __future__ import annotations

import asyncio
import select
import socket
from collections.abc import Callable
from typing import Any

from fencelock.engines.sql.interruptible import InterruptibleWait, input_poll, interrupt, settle


class BlockingSocketWait(InterruptibleWait):
    """Waits for one socket and blocks the thread."""

    def __init__(self, descriptor: int) -> None:
        super().__init__(descriptor)
        self._input = input_poll(descriptor)

    async def readable(self, timeout: float) -> bool:
        """Wait until there is something to read (True), or for `timeout` seconds (False)."""
        return bool(self._input.poll(max(0.0, timeout) * 1000))

    async def writable(self, timeout: float) -> bool:
        output = input_poll(self.descriptor)
        output.modify(self.descriptor, select.POLLOUT)
        return bool(output.poll(max(0.0, timeout) * 1000))

    async def readable_or_interrupted(self, timeout: float) -> bool:
        """Like `readable`, for long waits: `interrupt` ends it, too (False)."""
        return self.wait(timeout)

    @staticmethod
    async def resolve(host: str, port: int, timeout: float) -> list[str]:
        """Look up the addresses of a host. libpq would block while it does that."""
        return _addresses(socket.getaddrinfo(host, port, type=socket.SOCK_STREAM))


class AsyncioSocketWait:
    """The same, but suspends the task."""

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor
        self._interruptible: asyncio.Future[bool] | None = None

    async def readable(self, timeout: float) -> bool:
        loop = asyncio.get_running_loop()
        return await self._until(loop.create_future(), loop.add_reader, loop.remove_reader, timeout)

    async def writable(self, timeout: float) -> bool:
        loop = asyncio.get_running_loop()
        return await self._until(loop.create_future(), loop.add_writer, loop.remove_writer, timeout)

    async def readable_or_interrupted(self, timeout: float) -> bool:
        loop = asyncio.get_running_loop()
        future = self._interruptible = loop.create_future()
        return await self._until(future, loop.add_reader, loop.remove_reader, timeout)

    def interrupt(self) -> None:
        interrupt(self._interruptible)

    def close(self) -> None:
        pass

    async def _until(
        self,
        ready: asyncio.Future[bool],
        add: Callable[..., Any],
        remove: Callable[[int], Any],
        timeout: float,
    ) -> bool:
        add(self.descriptor, settle, ready, True)
        timer = ready.get_loop().call_later(max(0.0, timeout), settle, ready, False)
        try:
            return await ready
        finally:
            timer.cancel()
            remove(self.descriptor)

    @staticmethod
    async def resolve(host: str, port: int, timeout: float) -> list[str]:
        async with asyncio.timeout(timeout):
            loop = asyncio.get_running_loop()
            return _addresses(await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM))


SocketWait = BlockingSocketWait | AsyncioSocketWait


def _addresses(found: list[Any]) -> list[str]:
    return list(dict.fromkeys(address[0] for *_, address in found))
