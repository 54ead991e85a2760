"""Links for blocking programs: a waiting thread reads its own wake-up from its own socket."""

from __future__ import annotations

import os
import select
import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any, cast

import hiredis

from fencelock.engines.failure import RequestFailed
from fencelock.engines.resp.link import Link, Node
from fencelock.engines.resp.packing import pack
from fencelock.engines.resp.wire import MORE, NOT_REDIS, Login, greeting, pushed, reader, said
from fencelock.io import clock

_IDLE_LINKS = 16
"""Links kept for the next request; more are closed when they come back."""

_TRUSTED = 1.0
"""Seconds after which an idle link is looked at before it is used: it may have been cut."""

_PIECE = 16_384
"""Bytes to take in at once."""

_CLOSED = "the server closed the connection"

_HARDLY = 0.001
"""Seconds by which a request may take longer than allowed: it is dear to give a socket another timeout."""


class BlockingLink(Link):
    """A socket and a parser, used by one thread at a time."""

    def __init__(self, sock: socket.socket) -> None:
        super().__init__()
        self._socket = sock
        self._plain = type(sock) is socket.socket  # and no TLS, which has bytes of its own
        self._reader = reader()
        self._feed: Callable[[bytearray, int, int], None] = cast(Any, self._reader.feed)
        self._gets = self._reader.gets
        self._buffer = bytearray(_PIECE)  # one for all reads
        self._buffers = [self._buffer]
        self._poll = select.poll()
        self._poll.register(sock, select.POLLIN)
        self._timeout = sock.gettimeout() or 0.0
        self.woken: dict[str, str] = {}
        self._ending = threading.Lock()
        self._listening = self.dismissed = False
        self.broken = False
        self.used_at = clock.now()

    def greet(self, login: Login, timeout: float, *, scripts: bool) -> None:
        """Introduce ourselves; `RequestFailed` if the server does not want us."""
        commands = greeting(login, self.channel, scripts=scripts)
        self._welcomed(login, self.exchange(pack(commands), len(commands) - 1, timeout))

    # Each function that is called costs more than what most of them do: between two system calls hardly
    # anything of a program stays in the caches. So what every request needs is written out here.
    def exchange(self, payload: bytes, count: int, timeout: float) -> list[Any]:
        replies: list[Any] = []
        self.used_at = clock.now()
        try:
            if not timeout <= self._timeout < timeout + _HARDLY:
                self._limit(timeout)
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
                # A long answer comes in pieces, but all of them within the one timeout.
                self._limit(self.used_at + timeout - clock.now())
        except TimeoutError as error:
            self.close()
            raise RequestFailed(f"no answer within {timeout:.3g} s", "unknown") from error
        except (OSError, hiredis.HiredisError) as error:
            words = self._last_words(replies)
            self.close()
            raise RequestFailed(words or _explain(error), "unknown") from error
        except BaseException:  # interrupted between request and reply: the link is out of step
            self.close()
            raise

    def _last_words(self, replies: list[Any]) -> str | None:
        """What the server said before it hung up, e.g. that it has too many clients."""
        with suppress(OSError, hiredis.HiredisError):
            self._limit(0)
            self._receive()
            replies.append(self._gets())
        return next(
            (said(reply) for reply in replies if isinstance(reply, hiredis.ReplyError)), None
        )

    def listen(self, waiter: str, timeout: float) -> str | None:
        """Block until a wake-up for a ticket arrives, or until it is dismissed."""
        until = clock.now() + timeout
        with self._ending:
            self._listening = not self.dismissed
        if not self._listening:  # closed: the number of its file may be somebody else's by now
            return None
        try:
            while waiter not in self.woken:
                reply = self._gets()
                if reply is MORE:
                    left = until - clock.now()
                    if left <= 0:
                        return None
                    if not self._plain:
                        self._limit(left)
                        self._receive()
                    # To give the socket another timeout would cost more.
                    elif self._poll.poll(left * 1000):
                        self._receive(ready=True)
                elif type(reply) is hiredis.PushNotification:
                    self._pushed(reply)
            return self.woken.pop(waiter)
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
        """Send packed commands without waiting for the replies, which `read` will have."""
        try:
            self._write(payload)
        except OSError as error:
            self.close()
            raise RequestFailed(_explain(error), "unknown") from error
        except BaseException:
            self.close()
            raise

    def read(self) -> list[Any]:
        """The replies that have arrived, for one whose socket is readable."""
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
            words = self._last_words(replies)
            self.close()
            raise RequestFailed(words or _explain(error), "unknown") from error
        except BaseException:
            self.close()
            raise

    def fileno(self) -> int:
        return self._socket.fileno()

    def is_cut(self) -> bool:
        """Whether the server has closed this link while it lay idle."""
        try:  # what is there may also be a late wake-up, or TLS's own talk: hence a look past TLS
            return bool(self._poll.poll(0)) and not socket.socket.recv(
                self._socket, 1, socket.MSG_PEEK
            )
        except OSError:
            return True

    def hang_up(self) -> None:
        """End it from another thread: the one that reads from it wakes up and closes it.

        To close it here would be wrong. The reader sleeps in poll(), which after waking looks at the
        number of its file again, and that may belong to somebody else's socket by then.
        """
        self.broken = True
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)

    def dismiss(self) -> None:
        """End it from another thread, while its own one listens on it or does nothing with it."""
        with self._ending:
            self.dismissed = True
            if self._listening:
                self.hang_up()
            else:
                self.close()

    def close(self) -> None:
        self.broken = True
        self._socket.close()

    retire = close  # nobody else uses it

    def _limit(self, timeout: float) -> None:
        self._timeout = max(timeout, 0.001)
        self._socket.settimeout(self._timeout)

    # A socket of Python's that has a timeout asks the system before each act whether it would block. Mostly
    # there is no need to: what we send finds room, and who was told that something has come may read it.

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
                return  # what had come was not for us, the system finds: a broken packet
        else:
            size = self._socket.recv_into(self._buffer)
        if not size:
            raise ConnectionError(_CLOSED)
        self._feed(self._buffer, 0, size)

    def _pushed(self, message: list[Any]) -> None:
        wake_up = pushed(message)
        if wake_up is not None:
            self.woken[wake_up[0]] = wake_up[1]


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
            if clock.now() - link.used_at < _TRUSTED or not link.is_cut():
                return link
            link.close()

    async def take(self, timeout: float, waiter: str = "") -> BlockingLink:
        return self.ready(waiter) or self.connect(timeout)

    def give(self, link: BlockingLink, waiter: str = "") -> None:  # type: ignore[override]
        if link.woken:
            link.woken.clear()
        if link.dismissed:
            link.close()
        elif link.broken:
            link.close()
            # The others were cut by the same fault more often than not: don't fail once for each.
            self._drop_idle()
        elif len(self._idle) < _IDLE_LINKS and not self._closed:
            self._idle.append(link)
        else:
            link.close()

    async def listen(self, link: Link, waiter: str, timeout: float) -> str | None:
        assert isinstance(link, BlockingLink)
        return link.listen(waiter, timeout)

    def dismiss(self, link: Link, waiter: str) -> None:
        assert isinstance(link, BlockingLink)
        link.dismiss()

    interrupt = dismiss  # there is no other way to wake a thread that reads from a socket

    async def close(self) -> None:
        self._closed = True
        self._drop_idle()

    def connect(self, timeout: float) -> BlockingLink:
        """A new link."""
        if self._closed:
            raise RequestFailed("the client was closed", "not applied")
        end = clock.now() + timeout
        sock: socket.socket | None = None
        try:
            sock = socket.create_connection((self.host, self.port), timeout=timeout)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            if self.login.tls is not None:
                sock = self.login.tls.wrap_socket(sock, server_hostname=self.host)
            link = BlockingLink(sock)
            link.greet(self.login, max(0.001, end - clock.now()), scripts=not self.loaded)
        except BaseException as error:
            if sock is not None:
                sock.close()
            if isinstance(error, OSError):
                raise self._unreachable(error) from error
            if isinstance(error, RequestFailed):
                raise RequestFailed(str(error), "not applied") from error
            raise
        self._met(link)
        return link

    def _drop_idle(self) -> None:
        while True:  # other threads take and give meanwhile
            try:
                self._idle.pop().close()
            except IndexError:
                return
