"""Links for blocking programs: a waiting thread reads its wake-up from a socket of its own."""

from __future__ import annotations

import os
import select
import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any, cast

import hiredis

from fencelock.core.url import Credentials
from fencelock.engines.failure import RequestFailed
from fencelock.engines.resp.credentials import failed, plain, user_and_password
from fencelock.engines.resp.link import Link, Node
from fencelock.engines.resp.wire import MORE, NOT_REDIS, Login, error_text, reader, wake_up_of
from fencelock.io import clock

_MAX_IDLE = 16
"""Links kept for the next request. More are closed when they are given back."""

_CHECK_AFTER_IDLE = 1.0
"""Seconds after which an idle link is checked before it is used: the server may have closed it."""

_READ_SIZE = 16_384
"""The most bytes that one read takes in."""

_CLOSED = "the server closed the connection"

_TIMEOUT_SLACK = 0.001
"""Seconds by which a request may exceed its timeout. Setting another timeout on a socket is expensive."""


class BlockingLink(Link):
    """A socket and a parser, used by one thread at a time."""

    def __init__(self, sock: socket.socket) -> None:
        super().__init__()
        self._socket = sock
        self._plain = type(sock) is socket.socket  # TLS has a buffer of its own
        self._reader = reader()
        self._feed: Callable[[bytearray, int, int], None] = cast(Any, self._reader.feed)
        self._gets = self._reader.gets
        self._buffer = bytearray(_READ_SIZE)  # one for all reads
        self._buffers = [self._buffer]
        self._poll = select.poll()
        self._poll.register(sock, select.POLLIN)
        self._timeout = sock.gettimeout() or 0.0
        self.wake_ups: dict[str, str] = {}  # by the ticket's id
        self._ending = threading.Lock()
        self._listening = self.dismissed = False
        self.broken = False
        self.used_at = clock.now()

    async def credentials(self, provider: Credentials) -> tuple[str | None, str]:
        try:
            answer = plain(provider)()
        except Exception as error:
            raise failed(error) from error
        return user_and_password(answer)

    # The hot path, written out: between two system calls little of a program stays in the processor's caches,
    # so a call of a function often costs more than its work.
    def exchange(self, payload: bytes, count: int, timeout: float) -> list[Any]:
        replies: list[Any] = []
        self.used_at = clock.now()
        try:
            if not timeout <= self._timeout < timeout + _TIMEOUT_SLACK:
                self._set_timeout(timeout)
            self._write(payload)
            while True:
                size = self._socket.recv_into(self._buffer)
                if not size:
                    raise ConnectionError(_CLOSED)
                self._feed(self._buffer, 0, size)
                while (reply := self._gets()) is not MORE:
                    if type(reply) is hiredis.PushNotification:
                        self._pushed(reply)
                        continue
                    if count == 1:
                        return [reply]
                    replies.append(reply)
                    if len(replies) == count:
                        return replies
                # A long reply comes in pieces. One timeout is for all of them.
                self._set_timeout(self.used_at + timeout - clock.now())
        except TimeoutError as error:
            self.close()
            raise RequestFailed(f"no answer within {timeout:.3g} s", "unknown") from error
        except (OSError, hiredis.HiredisError) as error:
            raise self._lost(error, replies) from error
        except (
            BaseException
        ):  # interrupted between request and reply: the next reply would be the wrong one
            self.close()
            raise

    def _lost(self, error: Exception, replies: list[Any]) -> RequestFailed:
        """Close the link. The error says what the server said last, e.g. that it has too many clients."""
        with suppress(OSError, hiredis.HiredisError):
            self._set_timeout(0)
            self._receive()
            replies.append(self._gets())
        self.close()
        errors = [error_text(reply) for reply in replies if isinstance(reply, hiredis.ReplyError)]
        return RequestFailed(errors[0] if errors else _explain(error), "unknown")

    async def listen(self, waiter: str, timeout: float) -> str | None:
        until = clock.now() + timeout
        with self._ending:
            self._listening = not self.dismissed
        if not self._listening:  # closed: its file descriptor may belong to another socket by now
            return None
        try:
            while waiter not in self.wake_ups:
                reply = self._gets()
                if reply is MORE:
                    left = until - clock.now()
                    if left <= 0:
                        return None
                    if not self._plain:
                        self._set_timeout(left)
                        self._receive()
                    # poll() is cheaper than setting another timeout on the socket.
                    elif self._poll.poll(left * 1000):
                        self._receive(ready=True)
                elif type(reply) is hiredis.PushNotification:
                    self._pushed(reply)
            return self.wake_ups.pop(waiter)
        except TimeoutError:
            return None
        except (OSError, hiredis.HiredisError) as error:
            self.close()
            if self.dismissed:
                return None
            raise RequestFailed(_explain(error), "not applied") from error
        except BaseException:
            self.close()
            raise
        finally:
            with self._ending:
                self._listening = False

    def send(self, payload: bytes) -> None:
        """Send packed commands. `read` returns the replies later."""
        try:
            self._write(payload)
        except OSError as error:
            self.close()
            raise RequestFailed(_explain(error), "unknown") from error
        except BaseException:
            self.close()
            raise

    def read(self) -> list[Any]:
        """The replies that have arrived. Call it when the socket is readable."""
        replies: list[Any] = []
        try:
            self._receive(ready=True)
            while (reply := self._gets()) is not MORE:
                if isinstance(reply, hiredis.PushNotification):
                    self._pushed(reply)
                else:
                    replies.append(reply)
            return replies
        except (OSError, hiredis.HiredisError) as error:
            raise self._lost(error, replies) from error
        except BaseException:
            self.close()
            raise

    def fileno(self) -> int:
        return self._socket.fileno()

    def is_cut(self) -> bool:
        """Whether the server has closed this link while it was idle."""
        # Something to read may also be a late wake-up, or a message of TLS itself: so look below TLS.
        try:
            return bool(self._poll.poll(0)) and not socket.socket.recv(
                self._socket, 1, socket.MSG_PEEK
            )
        except OSError:
            return True

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

    def close(self) -> None:
        self.broken = True
        self._socket.close()

    retire = close  # only one thread uses it

    def _set_timeout(self, timeout: float) -> None:
        self._timeout = max(timeout, 0.001)
        self._socket.settimeout(self._timeout)

    # A Python socket with a timeout calls poll() before each read and write. Mostly that is not needed:
    # what we send fits into the buffer, and after our own poll() there is something to read.

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

    def _receive(self, *, ready: bool = False) -> None:
        if ready and self._plain:
            try:
                size = os.readv(self._socket.fileno(), self._buffers)
            except BlockingIOError:
                return  # the system has dropped a broken packet
        else:
            size = self._socket.recv_into(self._buffer)
        if not size:
            raise ConnectionError(_CLOSED)
        self._feed(self._buffer, 0, size)

    def _pushed(self, message: list[Any]) -> None:
        wake_up = wake_up_of(message)
        if wake_up is not None:
            self.wake_ups[wake_up[0]] = wake_up[1]


def _explain(error: Exception) -> str:
    if isinstance(error, hiredis.ProtocolError):
        return NOT_REDIS
    return str(error) or type(error).__name__


class BlockingNode(Node):
    """A pool that grows with the number of threads that wait at the same time."""

    def __init__(self, host: str, port: int, login: Login) -> None:
        super().__init__(host, port, login)
        self._idle: list[BlockingLink] = []

    def ready(self, waiter: str = "") -> BlockingLink | None:
        while True:
            try:
                link = self._idle.pop()
            except IndexError:
                return None
            if clock.now() - link.used_at < _CHECK_AFTER_IDLE or not link.is_cut():
                return link
            link.close()

    async def take(self, timeout: float, waiter: str = "") -> BlockingLink:
        return self.ready(waiter) or await self._connect(timeout)

    def give(self, link: BlockingLink, waiter: str = "") -> None:  # type: ignore[override]
        if link.wake_ups:
            link.wake_ups.clear()
        if link.dismissed:
            link.close()
        elif link.broken:
            link.close()
            # Mostly the same fault has cut the idle links: don't fail once for each of them.
            self._drop_idle()
        elif len(self._idle) < _MAX_IDLE and not self._closed:
            self._idle.append(link)
        else:
            link.close()

    async def close(self) -> None:
        self._closed = True
        self._drop_idle()

    async def _connect(self, timeout: float) -> BlockingLink:
        if self._closed:
            raise RequestFailed("the client was closed", "not applied")
        end = clock.now() + timeout
        with self._connecting():
            sock = self._open(timeout)
            try:
                if not self.is_socket:
                    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
                if self.login.tls is not None:
                    sock = self.login.tls.wrap_socket(sock, server_hostname=self.host)
                link = BlockingLink(sock)
                left = max(0.001, end - clock.now())
                await link.greet(self.login, left, scripts=not self.loaded)
            except BaseException:
                sock.close()
                raise
        self._connected(link)
        return link

    def _open(self, timeout: float) -> socket.socket:
        if not self.is_socket:
            return socket.create_connection((self.host, self.port), timeout=timeout)
        sock = socket.socket(socket.AF_UNIX)
        try:
            sock.settimeout(timeout)
            sock.connect(self.host)
        except BaseException:
            sock.close()
            raise
        return sock

    def _drop_idle(self) -> None:
        while True:  # other threads take and give meanwhile
            try:
                self._idle.pop().close()
            except IndexError:
                return
