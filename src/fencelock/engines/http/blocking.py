"""Links for blocking programs: a waiting thread reads its wake-up from a line of its own."""

from __future__ import annotations

import os
import select
import socket
import threading
from contextlib import suppress

import msgspec

from fencelock.engines.failure import RequestFailed
from fencelock.engines.http.failures import TIMED_OUT
from fencelock.engines.http.link import Greeting, Link, Login, Node, closed, waits
from fencelock.engines.http.websocket import Stream, Violation, closing, frame
from fencelock.engines.http.wire import (
    Answer,
    AnyAct,
    Hello,
    Reply,
    Request,
    Unpark,
    Wake,
    decode_message,
    encode,
)
from fencelock.io import clock

_MAX_IDLE = 16
"""Links kept for the next request. More are closed when they are given back."""

_CHECK_AFTER_IDLE = 1.0
"""Seconds after which an idle link is checked before it is used: the service may have closed it."""

_READ_SIZE = 16_384
"""The most bytes that one read takes in."""

_CLOSED = "the service closed the connection"

_TIMEOUT_SLACK = 0.001
"""Seconds by which a request may exceed its timeout. Setting another timeout on a socket is expensive."""


class BlockingLink(Link):
    """A socket and a stream, used by one thread at a time."""

    def __init__(self, node: Node, sock: socket.socket, stream: Stream) -> None:
        self.node = node
        self._socket = sock
        self._plain = type(sock) is socket.socket  # TLS has a buffer of its own
        self._stream = stream
        self._feed = stream.feed
        self._poll = select.poll()
        self._poll.register(sock, select.POLLIN)
        self._timeout = sock.gettimeout() or 0.0
        self._seq = 0
        self.parked = ""
        """The ticket that the service has parked on this line."""
        self._wake: Wake | None = None
        """The wake-up of that ticket."""
        self._ending = threading.Lock()
        self._listening = self.dismissed = False
        self.broken = False
        self.used_at = clock.now()

    def exchange(self, act: AnyAct, timeout: float, waiter: str = "") -> Answer:
        self._seq += 1
        self.used_at = clock.now()
        try:
            if not timeout <= self._timeout < timeout + _TIMEOUT_SLACK:
                self._set_timeout(timeout)
            self._write(frame(encode(Request(self._seq, act))))
            while True:
                answer = self._answer(self._read(), waiter)
                if answer is not None:
                    return answer
                # A long answer comes in pieces. One timeout is for all of them.
                self._set_timeout(self.used_at + timeout - clock.now())
        except TimeoutError as error:
            self.close()
            raise RequestFailed(
                f"no answer within {timeout:.3g} s", "unknown", TIMED_OUT
            ) from error
        except (OSError, Violation, msgspec.DecodeError) as error:
            raise self._lost(error) from error
        except BaseException:  # interrupted between request and answer
            self.close()
            raise

    def _read(self) -> bytes:
        data = self._socket.recv(_READ_SIZE)
        if not data:
            raise ConnectionError(_CLOSED)
        return data

    def _answer(self, data: bytes, waiter: str) -> Answer | None:
        """Take in what arrived. Returns the answer to the last request, if it is there."""
        answer: Answer | None = None
        for text in self._feed(data):
            message = decode_message(text)
            if type(message) is Reply:
                if message.seq == self._seq:  # and not the answer to an `Unpark`
                    answer = message.answer
                    # What came before it is old news.
                    self.parked, self._wake = "", None
                    if waiter and waits(answer):
                        self.parked = waiter
            elif type(message) is Wake and message.id == self.parked:
                self.parked, self._wake = "", message
        self._react(answered=answer is not None)
        return answer

    def _react(self, *, answered: bool = False) -> None:
        """Answer pings, and notice that the service has closed the line."""
        stream = self._stream
        if stream.outbox:
            with suppress(OSError):
                self._write(b"".join(stream.outbox))
            stream.outbox.clear()
        if stream.closed is not None:
            self.close()
            if not answered:
                raise closed(stream.closed)

    def _lost(self, error: Exception) -> RequestFailed:
        """Close the link. If the service said goodbye before, that says more than the error."""
        if isinstance(error, OSError):
            with suppress(OSError, Violation):
                self._set_timeout(0)
                self._feed(self._read())
        self.close()
        if self._stream.closed is not None:
            return closed(self._stream.closed)
        return RequestFailed(str(error) or type(error).__name__, "unknown")

    async def listen(self, waiter: str, timeout: float) -> Wake | None:
        until = clock.now() + timeout
        with self._ending:
            self._listening = not self.dismissed
        if not self._listening:  # closed: its file descriptor may belong to another socket by now
            return None
        try:
            while self.parked == waiter:
                left = until - clock.now()
                if left <= 0:
                    return None
                if not self._plain:
                    self._set_timeout(left)
                # poll() is cheaper than setting another timeout on the socket.
                elif not self._poll.poll(left * 1000):
                    return None
                self._answer(self._read(), "")
            wake, self._wake = self._wake, None
            return wake
        except TimeoutError:
            return None
        except (OSError, Violation, msgspec.DecodeError, RequestFailed) as error:
            self.close()
            if self.dismissed:
                return None
            raise RequestFailed(
                str(error) or type(error).__name__, "not applied", "closed"
            ) from error
        except BaseException:
            self.close()
            raise
        finally:
            with self._ending:
                self._listening = False

    def forget(self) -> None:
        """The ticket that is parked here does not wait any more. Never blocks."""
        # TLS might block. Then the service parks it until its ttl has passed, and nobody hears of it.
        if self.parked and self._plain and not self.broken:
            self._seq += 1
            payload = frame(encode(Request(self._seq, Unpark(self.parked))))
            try:
                if os.write(self._socket.fileno(), payload) != len(payload):
                    self.close()  # the rest might block
            except OSError:
                self.close()
        self.parked, self._wake = "", None

    def is_cut(self) -> bool:
        """Whether the service has closed this link while it was idle. Answers pings that came meanwhile."""
        try:
            if self._poll.poll(0):
                self._set_timeout(0.001)
                self._answer(self._read(), "")
        except TimeoutError:
            return False  # a message of TLS itself
        except (OSError, Violation, msgspec.DecodeError, RequestFailed):
            return True
        return bool(self.broken)

    def shut_down(self) -> None:
        """End the link from another thread. The thread that reads from it wakes up and closes it.

        Closing it here would be wrong: the reader sleeps in poll(), which uses the file descriptor again
        after it wakes up. By then the descriptor may belong to another socket.
        """
        self.broken = True
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)

    def dismiss(self, waiter: str) -> None:
        # Called by another thread, while the link's own thread listens on it or does not use it.
        with self._ending:
            self.dismissed = True
            if self._listening:
                self.shut_down()
            else:
                self.close()

    interrupt = dismiss  # nothing else wakes a thread that reads from a socket

    def say_goodbye(self) -> None:
        """Close the line as WebSocket wants it, if that does not block."""
        if self._plain and not self.broken:
            with suppress(OSError):
                os.write(self._socket.fileno(), closing(1000))
        self.close()

    def close(self) -> None:
        self.broken = True
        self._socket.close()

    def _set_timeout(self, timeout: float) -> None:
        self._timeout = max(timeout, 0.001)
        self._socket.settimeout(self._timeout)

    # A Python socket with a timeout calls poll() before each write. Mostly what we send fits into the buffer.

    def _write(self, payload: bytes) -> None:
        if self._plain:
            try:
                sent = os.write(self._socket.fileno(), payload)
            except BlockingIOError:
                sent = 0
            if sent == len(payload):
                return
            payload = payload[sent:]
        self._socket.sendall(payload)


class BlockingNode(Node):
    """A pool that grows with the number of threads that wait at the same time."""

    def __init__(self, host: str, port: int, login: Login) -> None:
        super().__init__(host, port, login)
        self._idle: list[BlockingLink] = []

    def ready(self) -> BlockingLink | None:
        while True:
            try:
                link = self._idle.pop()
            except IndexError:
                return None
            if clock.now() - link.used_at < _CHECK_AFTER_IDLE or not link.is_cut():
                return link
            link.close()

    async def connect(self, timeout: float) -> BlockingLink:
        self._check_open()
        end = clock.now() + timeout
        with self._connecting():
            sock = socket.create_connection((self.host, self.port), timeout=timeout)
            try:
                sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
                if self.login.tls is not None:
                    sock.settimeout(_left(end))
                    sock = self.login.tls.wrap_socket(sock, server_hostname=self.host)
                link, hello = self._greet(sock, end)
                link.replica = hello.replica
                self.met(hello)
                return link
            except BaseException:
                sock.close()
                raise

    def _greet(self, sock: socket.socket, end: float) -> tuple[BlockingLink, Hello]:
        greeting = Greeting(str(self), self.login)
        sock.settimeout(_left(end))
        sock.sendall(greeting.request)
        while True:
            sock.settimeout(_left(end))
            data = sock.recv(_READ_SIZE)
            if not data:
                raise ConnectionError(_CLOSED)
            hello = greeting.feed(data)
            if hello is not None:
                return BlockingLink(self, sock, greeting.stream), hello

    def give(self, link: BlockingLink, waiter: str = "") -> None:  # type: ignore[override]
        if link.parked:
            link.forget()
        if link.dismissed:
            link.close()
        elif link.broken:
            link.close()
            # Mostly the same fault has cut the idle links: don't fail once for each of them.
            self._drop_idle()
        elif len(self._idle) < _MAX_IDLE and not self._closed:
            self._idle.append(link)
        else:
            link.say_goodbye()

    async def close(self) -> None:
        self._closed = True
        self._drop_idle()

    def _drop_idle(self) -> None:
        while True:  # other threads take and give meanwhile
            try:
                self._idle.pop().say_goodbye()
            except IndexError:
                return


def _left(end: float) -> float:
    """The time until `end`. `TimeoutError` if it is over: a server may answer byte by byte."""
    left = end - clock.now()
    if left <= 0:
        raise TimeoutError
    return left
