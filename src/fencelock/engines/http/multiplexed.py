"""The link for asyncio: one line for all tasks."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from time import monotonic
from typing import cast

import msgspec

from fencelock.engines.failure import RequestFailed
from fencelock.engines.http.failures import TIMED_OUT
from fencelock.engines.http.link import Greeting, Link, Login, Node, closed, waits
from fencelock.engines.http.websocket import Violation, closing, frame
from fencelock.engines.http.wire import (
    Answer,
    AnyAct,
    Hello,
    Request,
    Unpark,
    Wake,
    decode_message,
    encode,
)
from fencelock.engines.http.wire import Reply as WireReply
from fencelock.engines.reply import Reply

_TIMEOUT_CHECK_INTERVAL = 0.05
"""Seconds between two checks for requests that took too long: one timer for all requests."""

_MAX_BATCH = 64
"""The most requests that are sent in one write."""

_DEAD_AFTER = 2.0
"""Seconds after which an unanswered request means that the line is dead. Also the limit to connect."""

_Sent = tuple[Reply[Answer], str, float, float]
"""Who takes the answer, the ticket that it lets wait, when it was sent, and when it times out."""


class MultiplexedLink(Link, asyncio.Protocol):
    """Requests of many tasks on one line: answers come in any order, wake-ups in between."""

    def __init__(self, node: Node) -> None:
        self.node = node
        self._loop = asyncio.get_running_loop()
        self._greeting = Greeting(str(node), node.login)
        self._stream = self._greeting.stream
        self._hello: Reply[Hello] | None = Reply(self._loop)
        """Who waits for the beginning of the line; None once it has begun."""
        self._transport: asyncio.Transport | None = None
        self._seq = 0
        self._requests: dict[int, _Sent] = {}
        self._outbox: list[bytes] = []
        self._flushing = False
        self._timer: asyncio.TimerHandle | None = None
        # The tickets that the service has parked on this line; with a reply once a task listens.
        self._waiters: dict[str, Reply[None] | None] = {}
        self._wakes: dict[str, Wake] = {}  # for tickets that are not parked any more, until taken
        self._closed = False
        self.broken: RequestFailed | None = None

    # --- called by the engine

    async def greet(self) -> Hello:
        """Do the handshake, and wait for the service's first message."""
        assert self._transport is not None
        assert self._hello is not None
        self._transport.write(self._greeting.request)
        return await self._hello

    def exchange(self, act: AnyAct, timeout: float, waiter: str = "") -> Reply[Answer]:
        if self.broken is not None:
            raise RequestFailed(str(self.broken), "not applied", "closed")
        if waiter:  # what is known of its last wait is old news
            self._waiters.pop(waiter, None)
            self._wakes.pop(waiter, None)
        reply: Reply[Answer] = Reply(self._loop)
        now = monotonic()
        seq = self._send(act)
        self._requests[seq] = reply, waiter, now, now + timeout
        if self._timer is None:
            self._timer = self._loop.call_later(_TIMEOUT_CHECK_INTERVAL, self._check_timeouts)
        return reply

    def _send(self, act: AnyAct) -> int:
        self._seq = seq = self._seq + 1
        payload = frame(encode(Request(seq, act)))
        if self._flushing:
            self._outbox.append(payload)
            if len(self._outbox) == _MAX_BATCH:  # let the service begin while we go on
                self._send_outbox()
        elif self._transport is not None:
            # Sent at once: it may be the only request. But while another request is under way, those that
            # follow in this turn of the loop are sent together.
            self._transport.write(payload)
            if self._requests:
                self._flushing = True
                self._loop.call_soon(self._flush)
        return seq

    def ignore(self, waiter: str) -> None:
        """Stop collecting the wake-up of a ticket. A `listen` for it ends."""
        self._wakes.pop(waiter, None)
        if waiter in self._waiters:
            reply = self._waiters.pop(waiter)
            if reply is not None:
                reply.arrive_soon(None)
            if self.broken is None:
                self._send(Unpark(waiter))

    dismiss = ignore

    async def listen(self, waiter: str, timeout: float) -> Wake | None:
        if waiter in self._waiters:
            if self.broken is not None:
                raise RequestFailed(str(self.broken), "not applied", "closed")
            reply = self._waiters[waiter] = Reply(self._loop)
            await reply.within(timeout, None)
        return self._wakes.pop(waiter, None)

    def interrupt(self, waiter: str) -> None:
        with suppress(RuntimeError):  # the loop is closed, and nobody listens any more
            self._loop.call_soon_threadsafe(self._end_listen, waiter)

    def close(self, reason: RequestFailed | None = None) -> None:
        if self._closed:
            return
        self._closed = True
        reason = self.broken = reason or RequestFailed("the connection was given up", "unknown")
        if self._timer is not None:
            self._timer.cancel()
        if self._transport is not None:
            self._transport.abort()
        if self._hello is not None:
            self._hello.fail(reason)
        for listener in self._waiters.values():
            if listener is not None:
                listener.fail(RequestFailed(str(reason), "not applied", "closed"))
        requests, self._requests = self._requests, {}
        for reply, *_ in requests.values():
            reply.fail(RequestFailed(str(reason), reason.outcome, reason.code))

    def say_goodbye(self) -> None:
        """Close the line as WebSocket wants it. What is under way may have been applied."""
        if self._transport is not None and not self._closed:
            self._transport.write(closing(1000))
        self.close(RequestFailed("the client was closed", "unknown", "client-closed"))

    # --- called by the event loop

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # Not asserted: other event loops have classes of their own.
        self._transport = cast(asyncio.Transport, transport)

    def connection_lost(self, error: Exception | None) -> None:
        reason = str(error) if error else "the service closed the connection"
        self.close(RequestFailed(reason, "unknown"))

    def data_received(self, data: bytes) -> None:
        try:
            if self._hello is not None:
                hello = self._greeting.feed(data)
                if hello is not None:
                    waiting, self._hello = self._hello, None
                    waiting.arrive(hello)
            else:
                for text in self._stream.feed(data):
                    self._take(text)
        except RequestFailed as error:
            self.close(error)
        except (Violation, msgspec.DecodeError) as error:
            self.close(RequestFailed(f"the service sends nonsense: {error}", "unknown"))
        self._react()

    def _take(self, text: bytes) -> None:
        message = decode_message(text)
        if type(message) is WireReply:
            sent = self._requests.pop(message.seq, None)
            if sent is not None:  # and not the answer to an `Unpark`
                reply, waiter, *_ = sent
                if waiter and not reply.done and waits(message.answer):
                    self._waiters[waiter] = None
                reply.arrive(message.answer)
        elif type(message) is Wake and message.id in self._waiters:
            listener = self._waiters.pop(message.id)
            self._wakes[message.id] = message
            if listener is not None:
                listener.arrive(None)

    def _react(self) -> None:
        """Answer pings, and notice that the service has closed the line."""
        stream = self._stream
        if stream.outbox:
            if self._transport is not None:
                self._transport.write(b"".join(stream.outbox))
            stream.outbox.clear()
        if stream.closed is not None:
            self.close(closed(stream.closed))

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
        dead = False
        for reply, _, sent, limit in list(self._requests.values()):
            if limit <= now:
                why = f"no answer within {limit - sent:.3g} s"
                reply.fail(RequestFailed(why, "unknown", TIMED_OUT))
                dead = dead or now - sent >= _DEAD_AFTER
        if dead:
            self.close(RequestFailed("the service does not answer", "unknown", TIMED_OUT))
        elif self._requests:
            self._timer = self._loop.call_later(_TIMEOUT_CHECK_INTERVAL, self._check_timeouts)


class MultiplexedNode(Node):
    """One link for all tasks, made when it is first needed and again after it broke."""

    def __init__(self, host: str, port: int, login: Login) -> None:
        super().__init__(host, port, login)
        self._link: MultiplexedLink | None = None
        self._attempt: asyncio.Task[MultiplexedLink] | None = None

    def ready(self) -> MultiplexedLink | None:
        link = self._link
        return link if link is not None and link.broken is None else None

    def give(self, link: MultiplexedLink, waiter: str = "") -> None:  # type: ignore[override]
        if waiter:
            link.ignore(waiter)

    async def close(self) -> None:
        self._closed = True
        if self._attempt is not None:
            self._attempt.cancel()
            await asyncio.wait([self._attempt])
        if self._link is not None:
            self._link.say_goodbye()

    async def connect(self, timeout: float) -> MultiplexedLink:
        self._check_open()
        # Many tasks may want it at once. They share one attempt, and none of them can cancel it.
        if self._attempt is None:
            self._attempt = asyncio.create_task(self._open())
            self._attempt.add_done_callback(self._opened)
        attempt = self._attempt
        # Each task that shared the attempt raises an error of its own.
        with self._connecting():
            done, _ = await asyncio.wait([attempt], timeout=timeout)
            if not done:
                raise TimeoutError
            if attempt.cancelled():
                raise RequestFailed("the client was closed", "not applied", "client-closed")
            return attempt.result()

    def _opened(self, task: asyncio.Task[MultiplexedLink]) -> None:
        self._attempt = None
        if not task.cancelled() and task.exception() is None:
            self._link = task.result()

    async def _open(self) -> MultiplexedLink:
        loop = asyncio.get_running_loop()
        tls, link = self.login.tls, None
        with self._connecting():
            try:
                async with asyncio.timeout(_DEAD_AFTER):
                    _, link = await loop.create_connection(
                        lambda: MultiplexedLink(self),
                        self.host,
                        self.port,
                        ssl=tls,
                        server_hostname=self.host if tls else None,
                    )
                    hello = await link.greet()
                    link.replica = hello.replica
                    self.met(hello)
            except BaseException:
                if link is not None:
                    link.close()
                raise
        return link
