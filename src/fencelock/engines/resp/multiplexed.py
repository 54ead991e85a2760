"""The link for asyncio: one connection for all tasks, its requests of one loop turn sent together."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from time import monotonic
from typing import Any, cast

import hiredis

from fencelock.engines.failure import RequestFailed
from fencelock.engines.resp.link import Link, Node
from fencelock.engines.resp.packing import pack
from fencelock.engines.resp.reply import Reply
from fencelock.engines.resp.wire import MORE, NOT_REDIS, Login, greeting, pushed, reader, said

_PATROL = 0.05
"""Seconds between two looks for requests that took too long: one timer instead of one per request."""

_FULL = 64
"""Requests that are sent together at the most."""

_GIVE_UP = 2.0
"""Seconds after which an unanswered request means that the connection is dead."""


Call = Callable[[list[Any] | RequestFailed], None]
"""Called with the replies, or with why there will be none."""

_Request = tuple[Reply[list[Any]] | Call, int, float, float]
"""Who wants the replies and how many, when it was sent, and until when it is worth anything. Plain, for to
make an object of a class takes longer than all else that is done with it."""


class MultiplexedLink(Link, asyncio.BufferedProtocol):
    """Requests of many tasks on one connection: replies come in order, wake-ups in between."""

    def __init__(self) -> None:
        super().__init__()
        self._loop = asyncio.get_running_loop()
        self._reader = reader()
        self._feed: Callable[[bytearray, int, int], None] = cast(Any, self._reader.feed)
        self._buffer = bytearray(65536)  # one for all reads: asyncio would make a new one each time
        self._view = memoryview(self._buffer)  # TLS reads in pieces, and a slice must not be a copy
        self._transport: asyncio.Transport | None = None
        self._gets = self._reader.gets
        self._requests: deque[_Request] = deque()
        self._replies: list[Any] = []  # to the first of them, if it wants several
        self._outbox: list[bytes] = []
        self._flushing = False
        self._patrol: asyncio.TimerHandle | None = None
        # Who is to be woken; with a reply as soon as somebody listens, for most never have to wait.
        self._woken: dict[str, Reply[None] | None] = {}
        self._news: dict[str, str] = {}  # the newest wake-up for a ticket, until it is taken
        self._closed = False
        self.broken: RequestFailed | None = None
        """Why it takes no more requests."""

    # --- called by the engine

    async def greet(self, login: Login, timeout: float, *, scripts: bool) -> None:
        """Introduce ourselves; `RequestFailed` if the server does not want us."""
        commands = greeting(login, self.channel, scripts=scripts)
        self._welcomed(login, await self.exchange(pack(commands), len(commands) - 1, timeout))

    def exchange(self, payload: bytes, count: int, timeout: float) -> Reply[list[Any]]:
        reply: Reply[list[Any]] = Reply(self._loop)
        self.post(payload, count, timeout, reply)
        return reply

    def post(
        self, payload: bytes, count: int, timeout: float, taker: Reply[list[Any]] | Call
    ) -> None:
        """The same for one that does not wait but is called, before anything else is read.

        It is not told when the time is up, only when the link is given up.
        """
        if self.broken is not None:
            raise RequestFailed(str(self.broken), "not applied")
        now = monotonic()
        if self._flushing:
            self._outbox.append(payload)
            if len(self._outbox) == _FULL:  # let the server begin while we go on
                self._send_outbox()
        elif self._transport is not None:
            # At once, for there may be no other; but while one waits for an answer, what else comes in
            # the same turn of the loop is sent together.
            self._transport.write(payload)
            if self._requests:
                self._flushing = True
                self._loop.call_soon(self._flush)
        self._requests.append((taker, count, now, now + timeout))
        if self._patrol is None:
            self._patrol = self._loop.call_later(_PATROL, self._look_for_late)

    def expect(self, waiter: str, reply: Reply[None] | None = None) -> None:
        """Collect the wake-up for a ticket from now on; `reply` may be shared by several links."""
        if reply is not None:
            self._woken[waiter] = reply
        else:
            self._woken.setdefault(waiter, None)

    def ignore(self, waiter: str) -> None:
        """Collect it no more; one who still listens for it stops."""
        if self._news:
            self._news.pop(waiter, None)
        reply = self._woken.pop(waiter, None)
        if reply is not None:
            reply.arrive_soon(None)

    async def listen(self, waiter: str, timeout: float) -> str | None:
        """Sleep until a wake-up for a ticket arrives."""
        if waiter not in self._woken:  # dismissed
            return None
        if waiter not in self._news:
            if self.broken is not None:
                raise RequestFailed(str(self.broken), "not applied")
            reply = self._woken[waiter] = Reply(self._loop)
            late = self._loop.call_later(max(timeout, 0), reply.arrive, None)
            try:
                await reply
            finally:
                late.cancel()
        return self._news.pop(waiter, None)

    def interrupt(self, waiter: str) -> None:
        """Have the one that listens stop, though nothing has arrived; called from any thread."""
        with suppress(RuntimeError):  # the loop is closed, and nobody listens any more
            self._loop.call_soon_threadsafe(self._rouse, waiter)

    def silence(self) -> float:
        """For how long the oldest request has waited for its reply, in seconds."""
        return monotonic() - self._requests[0][2] if self._requests else 0.0

    def close(self, reason: RequestFailed | None = None) -> None:
        """Fail what is under way and give the connection back."""
        if self._closed:
            return
        self._closed = True
        if reason is None:
            reason = RequestFailed("the connection was given up", "unknown")
        self._refuse(reason)
        if self._patrol is not None:
            self._patrol.cancel()
        if self._transport is not None:
            self._transport.abort()
        requests, self._requests = self._requests, deque()
        for taker, *_ in requests:
            error = RequestFailed(str(reason), "unknown")
            if not isinstance(taker, Reply):
                taker(error)
            else:
                taker.fail(error)

    def retire(self) -> None:
        self._refuse(RequestFailed("the server there is not the right one any more", "unknown"))
        if not self._requests:
            self.close()

    def _refuse(self, reason: RequestFailed) -> None:
        """Take no more requests, and wake those who listen."""
        self.broken = self.broken or reason
        for reply in self._woken.values():
            if reply is not None:
                reply.fail(RequestFailed(str(reason), "not applied"))

    # --- called by the event loop

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # Not asserted: other event loops have classes of their own.
        self._transport = cast(asyncio.Transport, transport)

    def connection_lost(self, error: Exception | None) -> None:
        # What it said before it hung up is worth more, e.g. that it has too many clients.
        words = [said(reply) for reply in self._replies if isinstance(reply, hiredis.ReplyError)]
        reason = str(error) if error else "the server closed the connection"
        self.close(RequestFailed(words[0] if words else reason, "unknown"))

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._view

    def buffer_updated(self, size: int) -> None:
        try:
            self._feed(self._buffer, 0, size)
            while (reply := self._gets()) is not MORE:
                if type(reply) is hiredis.PushNotification:
                    wake_up = pushed(reply)
                    if wake_up is not None:
                        self._wake(*wake_up)
                    continue
                requests = self._requests
                if not requests:  # nobody asked: it hangs up on us, or it is something else
                    refused = isinstance(reply, hiredis.ReplyError)
                    self.close(RequestFailed(said(reply) if refused else NOT_REDIS, "unknown"))
                    continue
                taker, count, _, _ = requests[0]
                if count == 1:
                    replies = [reply]
                else:
                    self._replies.append(reply)
                    if len(self._replies) < count:
                        continue
                    replies, self._replies = self._replies, []
                requests.popleft()
                if isinstance(taker, Reply):
                    taker.arrive(replies)
                else:
                    taker(replies)
                if self.broken is not None and not requests:  # retired, and that was the last one
                    self.close()
        except hiredis.ProtocolError:
            self.close(RequestFailed(NOT_REDIS, "unknown"))

    def _wake(self, waiter: str, news: str) -> None:
        if waiter in self._woken:
            self._news[waiter] = news  # two may come before the task runs: the second one counts
            self._rouse(waiter)

    def _rouse(self, waiter: str) -> None:
        reply = self._woken.get(waiter)
        if reply is not None:
            reply.arrive(None)

    def _flush(self) -> None:
        self._flushing = False
        self._send_outbox()

    def _send_outbox(self) -> None:
        outbox, self._outbox = self._outbox, []
        if outbox and self._transport is not None and not self._closed:
            self._transport.write(b"".join(outbox))

    def _look_for_late(self) -> None:
        self._patrol = None
        now = monotonic()
        for taker, _, sent, limit in self._requests:
            if limit <= now and isinstance(taker, Reply):
                why = f"no answer within {limit - sent:.3g} s"
                taker.fail(RequestFailed(why, "unknown"))
        if self._requests:
            _, _, sent, limit = self._requests[0]
            if now - sent >= max(_GIVE_UP, limit - sent):
                self.close(RequestFailed("the server does not answer", "unknown"))
            else:
                self._patrol = self._loop.call_later(_PATROL, self._look_for_late)


class MultiplexedNode(Node):
    """One link for all tasks, made when first needed and again when it broke."""

    def __init__(self, host: str, port: int, login: Login) -> None:
        super().__init__(host, port, login)
        self._link: MultiplexedLink | None = None
        self._connecting: asyncio.Task[MultiplexedLink] | None = None

    def ready(self, waiter: str = "") -> MultiplexedLink | None:
        link = self._link
        if link is None or link.broken is not None:
            return None
        if waiter:
            link.expect(waiter)
        return link

    async def take(self, timeout: float, waiter: str = "") -> MultiplexedLink:
        link = self.ready(waiter)
        if link is None:
            link = await self._connect(timeout)
            if waiter:
                link.expect(waiter)
        return link

    def give(self, link: MultiplexedLink, waiter: str = "") -> None:  # type: ignore[override]
        if waiter:
            link.ignore(waiter)

    async def listen(self, link: Link, waiter: str, timeout: float) -> str | None:
        assert isinstance(link, MultiplexedLink)
        return await link.listen(waiter, timeout)

    def dismiss(self, link: Link, waiter: str) -> None:
        assert isinstance(link, MultiplexedLink)
        link.ignore(waiter)

    def interrupt(self, link: Link, waiter: str) -> None:
        assert isinstance(link, MultiplexedLink)
        link.interrupt(waiter)

    async def close(self) -> None:
        self._closed = True
        if self._connecting is not None:
            self._connecting.cancel()
            await asyncio.wait([self._connecting])
        if self._link is not None:
            self._link.close(RequestFailed("the client was closed", "unknown"))

    async def _connect(self, timeout: float) -> MultiplexedLink:
        if self._closed:
            raise RequestFailed("the client was closed", "not applied")
        # Many tasks may want it at once: they share one attempt, and none of them can cancel it.
        if self._connecting is None:
            self._connecting = asyncio.create_task(self._open())
            self._connecting.add_done_callback(self._opened)
        connecting = self._connecting
        done, _ = await asyncio.wait([connecting], timeout=timeout)
        if not done:
            raise self._unreachable(TimeoutError())
        if connecting.cancelled():
            raise RequestFailed("the client was closed", "not applied")
        error = connecting.exception()
        if isinstance(error, RequestFailed):  # each of those who shared the attempt gets its own
            raise RequestFailed(str(error), "not applied") from error
        return connecting.result()

    def _opened(self, task: asyncio.Task[MultiplexedLink]) -> None:
        self._connecting = None
        if not task.cancelled() and task.exception() is None:
            self._link = task.result()

    async def _open(self) -> MultiplexedLink:
        loop = asyncio.get_running_loop()
        link: MultiplexedLink | None = None
        try:
            async with asyncio.timeout(_GIVE_UP):
                hostname = self.host if self.login.tls else None
                _, link = await loop.create_connection(
                    MultiplexedLink,
                    self.host,
                    self.port,
                    ssl=self.login.tls,
                    server_hostname=hostname,
                )
                await link.greet(self.login, _GIVE_UP, scripts=not self.loaded)
        except BaseException as error:
            if link is not None:
                link.close()
            if isinstance(error, OSError):  # a TimeoutError among them
                raise self._unreachable(error) from error
            if isinstance(error, RequestFailed):
                raise RequestFailed(str(error), "not applied") from error
            raise
        self._met(link)
        return link
