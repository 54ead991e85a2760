"""The link for asyncio: one connection for all tasks, its requests of one loop turn sent together."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Any, cast

import hiredis

from holdfast.engines.redis.link import Link, Node, refused
from holdfast.engines.redis.resp import MORE, Broken, Command, Login, greeting, pack, pushed, reader

_PATROL = 0.05
"""Seconds between two looks for requests that took too long: one timer instead of one per request."""

_GIVE_UP = 2.0
"""Seconds after which an unanswered request means that the connection is dead."""


class _Request:
    __slots__ = ("count", "future", "limit", "replies", "sent")

    def __init__(
        self, future: asyncio.Future[list[Any]], count: int, sent: float, limit: float
    ) -> None:
        self.future = future
        self.count = count
        self.sent = sent
        self.limit = limit
        self.replies: list[Any] = []


class MultiplexedLink(Link, asyncio.BufferedProtocol):
    """Requests of many tasks on one connection: replies come in order, wake-ups in between."""

    def __init__(self) -> None:
        super().__init__()
        self._loop = asyncio.get_running_loop()
        self._reader = reader()
        self._feed: Callable[[bytearray, int, int], None] = cast(Any, self._reader.feed)
        self._buffer = bytearray(65536)  # one for all reads: asyncio would make a new one each time
        self._transport: asyncio.Transport | None = None
        self._requests: deque[_Request] = deque()
        self._outbox: list[bytes] = []
        self._patrol: asyncio.TimerHandle | None = None
        self._woken: dict[str, asyncio.Future[str]] = {}
        self.broken: Broken | None = None

    # --- called by the engine

    async def exchange(self, commands: list[Command], timeout: float) -> list[Any]:
        return await self._send(commands, len(commands), timeout)

    async def greet(self, commands: list[Command], timeout: float) -> list[Any]:
        """Send the greeting, to which there is one reply less than commands."""
        return await self._send(commands, len(commands) - 1, timeout)

    def _send(
        self, commands: list[Command], count: int, timeout: float
    ) -> asyncio.Future[list[Any]]:
        if self.broken is not None:
            raise Broken(str(self.broken), "not applied")
        now = self._loop.time()
        future: asyncio.Future[list[Any]] = self._loop.create_future()
        self._requests.append(_Request(future, count, now, now + timeout))
        if not self._outbox:
            self._loop.call_soon(self._flush)
        self._outbox.append(pack(commands))
        if self._patrol is None:
            self._patrol = self._loop.call_later(_PATROL, self._look_for_late)
        return future

    def expect(self, waiter: str) -> None:
        """Collect the wake-up for a ticket from now on."""
        if waiter not in self._woken:
            self._woken[waiter] = self._loop.create_future()

    def ignore(self, waiter: str) -> None:
        future = self._woken.pop(waiter, None)
        if future is not None and future.done() and not future.cancelled():
            future.exception()  # seen: asyncio would complain that nobody looked

    async def listen(self, waiter: str, timeout: float) -> str | None:
        """Sleep until a wake-up for a ticket arrives."""
        future = self._woken[waiter]
        done, _ = await asyncio.wait([future], timeout=max(timeout, 0))
        if not done:
            return None
        self._woken[waiter] = self._loop.create_future()
        return future.result()

    def close(self, reason: Broken | None = None) -> None:
        """Fail what is under way and give the connection back."""
        if self.broken is not None:
            return
        self.broken = reason or Broken("the client was closed", "unknown")
        if self._patrol is not None:
            self._patrol.cancel()
        if self._transport is not None:
            self._transport.abort()
        for request in self._requests:
            if not request.future.done():
                request.future.set_exception(Broken(str(self.broken), "unknown"))
        self._requests.clear()
        for future in self._woken.values():
            if not future.done():
                future.set_exception(Broken(str(self.broken), "not applied"))

    # --- called by the event loop

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def connection_lost(self, error: Exception | None) -> None:
        self.close(Broken(str(error) if error else "the server closed the connection", "unknown"))

    def get_buffer(self, sizehint: int) -> bytearray:
        return self._buffer

    def buffer_updated(self, size: int) -> None:
        try:
            self._feed(self._buffer, 0, size)
            while (reply := self._reader.gets()) is not MORE:
                self._received(reply)
        except hiredis.ProtocolError:
            self.close(Broken("the server there does not speak Redis's protocol", "unknown"))

    def _received(self, reply: Any) -> None:
        if isinstance(reply, hiredis.PushNotification):
            wake_up = pushed(reply)
            future = self._woken.get(wake_up[0]) if wake_up else None
            if wake_up and future is not None and not future.done():
                future.set_result(wake_up[1])
            return
        request = self._requests[0]
        request.replies.append(reply)
        if len(request.replies) == request.count:
            self._requests.popleft()
            if not request.future.done():
                request.future.set_result(request.replies)

    def _flush(self) -> None:
        outbox, self._outbox = self._outbox, []
        if self._transport is not None and self.broken is None:
            self._transport.write(b"".join(outbox))

    def _look_for_late(self) -> None:
        self._patrol = None
        now = self._loop.time()
        for request in self._requests:
            if request.limit <= now and not request.future.done():
                allowed = request.limit - request.sent
                request.future.set_exception(Broken(f"no answer within {allowed:.3g} s", "unknown"))
        if self._requests:
            oldest = self._requests[0]
            if now - oldest.sent >= max(_GIVE_UP, oldest.limit - oldest.sent):
                self.close(Broken("the server does not answer", "unknown"))
            else:
                self._patrol = self._loop.call_later(_PATROL, self._look_for_late)


class MultiplexedNode(Node):
    """One link for all tasks, made when first needed and again when it broke."""

    def __init__(self, host: str, port: int, login: Login) -> None:
        super().__init__(host, port, login)
        self._link: MultiplexedLink | None = None
        self._connecting: asyncio.Task[MultiplexedLink] | None = None

    async def take(self, timeout: float, waiter: str = "") -> MultiplexedLink:
        link = self._link
        if link is None or link.broken is not None:
            link = await self._connect(timeout)
        if waiter:
            link.expect(waiter)
        return link

    def give(self, link: Link, waiter: str = "") -> None:
        if waiter:
            assert isinstance(link, MultiplexedLink)
            link.ignore(waiter)

    async def listen(self, link: Link, waiter: str, timeout: float) -> str | None:
        assert isinstance(link, MultiplexedLink)
        return await link.listen(waiter, timeout)

    async def close(self) -> None:
        if self._connecting is not None:
            self._connecting.cancel()
            await asyncio.wait([self._connecting])
        if self._link is not None:
            self._link.close()

    async def _connect(self, timeout: float) -> MultiplexedLink:
        # Many tasks may want it at once: they share one attempt, and none of them can cancel it.
        if self._connecting is None:
            self._connecting = asyncio.create_task(self._open(timeout))
            self._connecting.add_done_callback(self._opened)
        return await asyncio.shield(self._connecting)

    def _opened(self, task: asyncio.Task[MultiplexedLink]) -> None:
        self._connecting = None
        if not task.cancelled() and task.exception() is None:
            self._link = task.result()

    async def _open(self, timeout: float) -> MultiplexedLink:
        loop = asyncio.get_running_loop()
        link: MultiplexedLink | None = None
        try:
            async with asyncio.timeout(timeout):
                hostname = self.host if self.login.tls else None
                _, link = await loop.create_connection(
                    MultiplexedLink,
                    self.host,
                    self.port,
                    ssl=self.login.tls,
                    server_hostname=hostname,
                )
                commands = greeting(self.login, link.channel, scripts=not self.loaded)
                refused(await link.greet(commands, timeout))
        except TimeoutError as error:
            raise self._unopened(link, f"can't connect within {timeout:.3g} s") from error
        except OSError as error:
            raise self._unopened(link, f"can't connect: {error}") from error
        except Broken as error:
            raise self._unopened(link, str(error)) from error
        except BaseException:
            self._unopened(link, "cancelled")
            raise
        self.loaded = True
        return link

    def _unopened(self, link: MultiplexedLink | None, reason: str) -> Broken:
        broken = Broken(reason, "not applied")
        if link is not None:
            link.close(broken)
        return broken
