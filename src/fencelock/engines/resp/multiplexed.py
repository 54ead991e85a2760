"""The link for asyncio: one connection for all tasks. Requests of one turn of the loop are sent together."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from contextlib import suppress
from time import monotonic
from typing import Any, cast

import hiredis

from fencelock.core.url import Credentials
from fencelock.engines.failure import RequestFailed
from fencelock.engines.reply import Reply
from fencelock.engines.resp.credentials import failed, plain, user_and_password
from fencelock.engines.resp.link import Link, Node
from fencelock.engines.resp.wire import MORE, NOT_REDIS, Login, error_text, reader, wake_up_of

_TIMEOUT_CHECK_INTERVAL = 0.05
"""Seconds between two checks for requests that took too long: one timer for all requests."""

_MAX_BATCH = 64
"""The most requests that are sent in one write."""

_DEAD_AFTER = 2.0
"""Seconds after which an unanswered request means that the connection is dead. Also the limit to connect."""


Call = Callable[[list[Any] | RequestFailed], None]
"""Called with the replies, or with the reason why there will be none."""

_Request = tuple[Reply[list[Any]] | Call, int, float, float]
"""Who takes the replies, how many there will be, when it was sent, and when it times out. A plain tuple: an
object of a class takes longer to make."""


class MultiplexedLink(Link, asyncio.BufferedProtocol):
    """Requests of many tasks on one connection: replies come in order, wake-ups in between."""

    def __init__(self) -> None:
        super().__init__()
        self._loop = asyncio.get_running_loop()
        self._reader = reader()
        self._feed: Callable[[bytearray, int, int], None] = cast(Any, self._reader.feed)
        self._buffer = bytearray(65536)  # one for all reads: asyncio would make a new one each time
        self._view = memoryview(self._buffer)  # TLS reads into slices, which must not be copies
        self._transport: asyncio.Transport | None = None
        self._gets = self._reader.gets
        self._requests: deque[_Request] = deque()
        self._replies: list[Any] = []  # to the first request, if it gets several
        self._outbox: list[bytes] = []
        self._flushing = False
        self._timer: asyncio.TimerHandle | None = None
        # The tickets that expect a wake-up; with a reply once a task listens. Most tickets never wait.
        self._waiters: dict[str, Reply[None] | None] = {}
        self._wake_ups: dict[str, str] = {}  # the newest wake-up for a ticket, until it is taken
        self._closed = False
        self.broken: RequestFailed | None = None
        """Why the link takes no more requests."""

    # --- called by the engine

    async def credentials(self, provider: Credentials) -> tuple[str | None, str]:
        own = getattr(provider, "get_credentials_async", None)
        try:
            # redis-py's own only calls the blocking method, and warns.
            if own is not None and own.__module__ != "redis.credentials":
                answer = await own()
            else:
                answer = await asyncio.to_thread(plain(provider))  # it may ask a server
                answer = await answer if isinstance(answer, Awaitable) else answer
        except Exception as error:
            raise failed(error) from error
        return user_and_password(answer)

    def exchange(self, payload: bytes, count: int, timeout: float) -> Reply[list[Any]]:
        reply: Reply[list[Any]] = Reply(self._loop)
        self.post(payload, count, timeout, reply)
        return reply

    def post(
        self, payload: bytes, count: int, timeout: float, taker: Reply[list[Any]] | Call
    ) -> None:
        """Send packed commands. `taker` is called with the replies, before anything else is read.

        A `Reply` fails when the time is up. A `Call` is called then only if the link is given up.
        """
        if self.broken is not None:
            raise RequestFailed(str(self.broken), "not applied")
        now = monotonic()
        if self._flushing:
            self._outbox.append(payload)
            if len(self._outbox) == _MAX_BATCH:  # let the server begin while we go on
                self._send_outbox()
        elif self._transport is not None:
            # Sent at once: it may be the only request. But while another request is under way, those that
            # follow in this turn of the loop are sent together.
            self._transport.write(payload)
            if self._requests:
                self._flushing = True
                self._loop.call_soon(self._flush)
        self._requests.append((taker, count, now, now + timeout))
        if self._timer is None:
            self._timer = self._loop.call_later(_TIMEOUT_CHECK_INTERVAL, self._check_timeouts)

    def expect(self, waiter: str, reply: Reply[None] | None = None) -> None:
        """Collect the wake-up for a ticket from now on. Several links may share one `reply`."""
        if reply is not None:
            self._waiters[waiter] = reply
        else:
            self._waiters.setdefault(waiter, None)

    def ignore(self, waiter: str) -> None:
        """Stop collecting it. A `listen` for it ends."""
        if self._wake_ups:
            self._wake_ups.pop(waiter, None)
        reply = self._waiters.pop(waiter, None)
        if reply is not None:
            reply.arrive_soon(None)

    dismiss = ignore

    async def listen(self, waiter: str, timeout: float) -> str | None:
        if waiter not in self._waiters:
            return None
        if waiter not in self._wake_ups:
            if self.broken is not None:
                raise RequestFailed(str(self.broken), "not applied")
            reply = self._waiters[waiter] = Reply(self._loop)
            await reply.within(timeout, None)
        return self._wake_ups.pop(waiter, None)

    def interrupt(self, waiter: str) -> None:
        with suppress(RuntimeError):  # the loop is closed, and nobody listens any more
            self._loop.call_soon_threadsafe(self._end_listen, waiter)

    def silence(self) -> float:
        """Seconds that the oldest request has waited for its reply."""
        return monotonic() - self._requests[0][2] if self._requests else 0.0

    def close(self, reason: RequestFailed | None = None) -> None:
        """Close the connection. Requests under way fail."""
        if self._closed:
            return
        self._closed = True
        if reason is None:
            reason = RequestFailed("the connection was given up", "unknown")
        self._refuse(reason)
        if self._timer is not None:
            self._timer.cancel()
        if self._transport is not None:
            self._transport.abort()
        requests, self._requests = self._requests, deque()
        for taker, *_ in requests:
            error = RequestFailed(str(reason), "unknown")
            if isinstance(taker, Reply):
                taker.fail(error)
            else:
                taker(error)

    def retire(self) -> None:
        self._refuse(RequestFailed("the server there is not the right one any more", "unknown"))
        if not self._requests:
            self.close()

    def _refuse(self, reason: RequestFailed) -> None:
        """Take no more requests, and end every `listen`."""
        self.broken = self.broken or reason
        for reply in self._waiters.values():
            if reply is not None:
                reply.fail(RequestFailed(str(reason), "not applied"))

    # --- called by the event loop

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # Not asserted: other event loops have classes of their own.
        self._transport = cast(asyncio.Transport, transport)

    def connection_lost(self, error: Exception | None) -> None:
        # An error that the server sent before it closed says more, e.g. that it has too many clients.
        errors = [error_text(one) for one in self._replies if isinstance(one, hiredis.ReplyError)]
        reason = str(error) if error else "the server closed the connection"
        self.close(RequestFailed(errors[0] if errors else reason, "unknown"))

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._view

    def buffer_updated(self, size: int) -> None:
        try:
            self._feed(self._buffer, 0, size)
            while (reply := self._gets()) is not MORE:
                if type(reply) is hiredis.PushNotification:
                    wake_up = wake_up_of(reply)
                    if wake_up is not None:
                        self._wake(*wake_up)
                    continue
                requests = self._requests
                if not requests:  # nobody asked: the server refuses us, or it is no Redis
                    refused = isinstance(reply, hiredis.ReplyError)
                    reason = error_text(reply) if refused else NOT_REDIS
                    self.close(RequestFailed(reason, "unknown"))
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
                if (
                    self.broken is not None and not requests
                ):  # retired, and that was the last request
                    self.close()
        except hiredis.ProtocolError:
            self.close(RequestFailed(NOT_REDIS, "unknown"))

    def _wake(self, waiter: str, wake_up: str) -> None:
        if waiter in self._waiters:
            self._wake_ups[waiter] = wake_up  # two may come before the task runs: the second counts
            self._end_listen(waiter)

    def _end_listen(self, waiter: str) -> None:
        reply = self._waiters.get(waiter)
        if reply is not None:
            reply.arrive(None)

    def _flush(self) -> None:
        self._flushing = False
        self._send_outbox()

    def _send_outbox(self) -> None:
        outbox, self._outbox = self._outbox, []
        if outbox and self._transport is not None and not self._closed:
            self._transport.write(b"".join(outbox))

    def _check_timeouts(self) -> None:
        self._timer = None
        now = monotonic()
        for taker, _, sent, limit in self._requests:
            if limit <= now and isinstance(taker, Reply):
                why = f"no answer within {limit - sent:.3g} s"
                taker.fail(RequestFailed(why, "unknown"))
        if self._requests:
            _, _, sent, limit = self._requests[0]
            if now - sent >= max(_DEAD_AFTER, limit - sent):
                self.close(RequestFailed("the server does not answer", "unknown"))
            else:
                self._timer = self._loop.call_later(_TIMEOUT_CHECK_INTERVAL, self._check_timeouts)


class MultiplexedNode(Node):
    """One link for all tasks, made when it is first needed and again after it broke."""

    def __init__(self, host: str, port: int, login: Login) -> None:
        super().__init__(host, port, login)
        self._link: MultiplexedLink | None = None
        self._attempt: asyncio.Task[MultiplexedLink] | None = None
        self._waiting: list[Reply[bool]] = []
        """The tasks that wait for the attempt. `asyncio.wait` for each would take longer than a lock."""

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

    async def close(self) -> None:
        self._closed = True
        if self._attempt is not None:
            self._attempt.cancel()
            await asyncio.wait([self._attempt])
        if self._link is not None:
            self._link.close(RequestFailed("the client was closed", "unknown"))

    async def _connect(self, timeout: float) -> MultiplexedLink:
        if self._closed:
            raise RequestFailed("the client was closed", "not applied")
        # Many tasks may want it at once. They share one attempt, and none of them can cancel it.
        if self._attempt is None:
            self._attempt = asyncio.create_task(self._open())
            self._attempt.add_done_callback(self._opened)
        attempt = self._attempt
        over: Reply[bool] = Reply(asyncio.get_running_loop())
        self._waiting.append(over)
        try:
            # The attempt itself has a limit, and most tasks have more time than that: they need no timer.
            if not await (over if timeout >= _DEAD_AFTER else over.within(timeout, False)):
                raise TimeoutError
            if attempt.cancelled():
                raise RequestFailed("the client was closed", "not applied")
            return attempt.result()
        except (OSError, RequestFailed) as error:
            # Each task that shared the attempt raises an error of its own. `_connecting` would be a context
            # manager for each of a thousand tasks.
            raise self._not_connected(error) from error

    def _opened(self, task: asyncio.Task[MultiplexedLink]) -> None:
        self._attempt = None
        if not task.cancelled() and task.exception() is None:
            self._link = task.result()
        waiting, self._waiting = self._waiting, []
        for over in waiting:
            over.arrive(True)

    async def _open(self) -> MultiplexedLink:
        loop = asyncio.get_running_loop()
        link: MultiplexedLink | None = None
        tls = self.login.tls
        with self._connecting():
            try:
                async with asyncio.timeout(_DEAD_AFTER):
                    if self.is_socket:
                        _, link = await loop.create_unix_connection(MultiplexedLink, self.host)
                    else:
                        _, link = await loop.create_connection(
                            MultiplexedLink,
                            self.host,
                            self.port,
                            ssl=tls,
                            server_hostname=self.host if tls else None,
                        )
                    await link.greet(self.login, _DEAD_AFTER, scripts=not self.loaded)
            except BaseException:
                if link is not None:
                    link.close()
                raise
        self._connected(link)
        return link
