"""What it means to wait for a socket: to block the thread, or to suspend the task."""

from __future__ import annotations

import asyncio
import select
import socket
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from fencelock.engines.sql.bell import Bell


class Readiness(ABC):
    """Waits for one socket."""

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor

    @abstractmethod
    async def readable(self, timeout: float) -> bool:
        """Wait until there is something to read (True) or the time is up (False)."""

    @abstractmethod
    async def writable(self, timeout: float) -> bool: ...

    @abstractmethod
    async def roused(self, timeout: float) -> bool:
        """As `readable`, but for long: `interrupt` ends it, too (False)."""

    @abstractmethod
    def interrupt(self) -> None:
        """From any thread; does nothing if nobody waits in that way."""

    def close(self) -> None:  # noqa: B027 - only threads need something to be closed
        """Nobody waits any more."""

    @staticmethod
    @abstractmethod
    async def resolve(host: str, port: int, timeout: float) -> list[str]:
        """The addresses of a host. libpq would block while it looks them up."""


class BlockingReadiness(Readiness):
    """Blocks the thread."""

    def __init__(self, descriptor: int) -> None:
        super().__init__(descriptor)
        self._reading = select.poll()
        self._reading.register(descriptor, select.POLLIN)
        self._bell: Bell | None = None

    async def readable(self, timeout: float) -> bool:
        return bool(self._reading.poll(max(0.0, timeout) * 1000))

    async def writable(self, timeout: float) -> bool:
        writing = select.poll()
        writing.register(self.descriptor, select.POLLOUT)
        return bool(writing.poll(max(0.0, timeout) * 1000))

    async def roused(self, timeout: float) -> bool:
        self._bell = self._bell or Bell(self.descriptor)
        return self._bell.wait(timeout)

    def interrupt(self) -> None:
        if self._bell is not None:
            self._bell.ring()

    def close(self) -> None:
        if self._bell is not None:
            self._bell.close()

    @staticmethod
    async def resolve(host: str, port: int, timeout: float) -> list[str]:
        return _addresses(socket.getaddrinfo(host, port, type=socket.SOCK_STREAM))


class AsyncioReadiness(Readiness):
    """Suspends the task."""

    _sleeper: asyncio.Future[bool] | None = None
    """Of the one to be roused."""

    async def readable(self, timeout: float) -> bool:
        loop = asyncio.get_running_loop()
        future = loop.create_future()
        return await self._until(future, loop, loop.add_reader, loop.remove_reader, timeout)

    async def writable(self, timeout: float) -> bool:
        loop = asyncio.get_running_loop()
        future = loop.create_future()
        return await self._until(future, loop, loop.add_writer, loop.remove_writer, timeout)

    async def roused(self, timeout: float) -> bool:
        loop = asyncio.get_running_loop()
        future = self._sleeper = loop.create_future()
        return await self._until(future, loop, loop.add_reader, loop.remove_reader, timeout)

    def interrupt(self) -> None:
        if self._sleeper is not None:
            with suppress(RuntimeError):  # the loop is closed
                self._sleeper.get_loop().call_soon_threadsafe(_settle, self._sleeper, False)

    async def _until(
        self,
        future: asyncio.Future[bool],
        loop: asyncio.AbstractEventLoop,
        add: Callable[..., Any],
        remove: Callable[[int], Any],
        timeout: float,
    ) -> bool:
        add(self.descriptor, _settle, future, True)
        late = loop.call_later(max(0.0, timeout), _settle, future, False)
        try:
            return await future
        finally:
            late.cancel()
            remove(self.descriptor)

    @staticmethod
    async def resolve(host: str, port: int, timeout: float) -> list[str]:
        async with asyncio.timeout(timeout):
            loop = asyncio.get_running_loop()
            return _addresses(await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM))


def _settle(future: asyncio.Future[bool], outcome: bool) -> None:
    if not future.done():
        future.set_result(outcome)


def _addresses(found: list[Any]) -> list[str]:
    return list(dict.fromkeys(address[0] for *_, address in found))
