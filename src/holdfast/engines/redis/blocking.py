"""Links for blocking programs: a waiting thread reads its own wake-up from its own socket."""

from __future__ import annotations

import socket
from typing import Any

import hiredis

from holdfast.engines.redis.link import Link, Node, refused
from holdfast.engines.redis.resp import MORE, Broken, Command, Login, greeting, pack, pushed, reader
from holdfast.io import clock

_IDLE_LINKS = 16
"""Links kept for the next request; more are closed when they come back."""


class BlockingLink(Link):
    """A socket and a parser, used by one thread at a time."""

    def __init__(self, sock: socket.socket) -> None:
        super().__init__()
        self._socket = sock
        self._reader = reader()
        self._timeout = sock.gettimeout()
        self.woken: dict[str, str] = {}
        self.broken = False

    @classmethod
    def connect(
        cls, host: str, port: int, login: Login, timeout: float, *, scripts: bool
    ) -> BlockingLink:
        end = clock.now() + timeout
        try:
            sock = socket.create_connection((host, port), timeout=timeout)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            if login.tls is not None:
                sock = login.tls.wrap_socket(sock, server_hostname=host)
        except OSError as error:
            raise Broken(f"can't connect: {error}", "not applied") from error
        link = cls(sock)
        try:
            commands = greeting(login, link.channel, scripts=scripts)
            refused(
                link._exchange(pack(commands), len(commands) - 1, max(0.001, end - clock.now()))
            )
        except Broken as error:
            link.close()
            raise Broken(str(error), "not applied") from error
        except BaseException:
            link.close()
            raise
        return link

    async def exchange(self, commands: list[Command], timeout: float) -> list[Any]:
        return self._exchange(pack(commands), len(commands), timeout)

    def _exchange(self, payload: bytes, count: int, timeout: float) -> list[Any]:
        try:
            if timeout != self._timeout:
                self._limit(timeout)
            self._socket.sendall(payload)
            replies: list[Any] = []
            while len(replies) < count:
                reply = self._reader.gets()
                if reply is MORE:
                    self._receive()
                elif isinstance(reply, hiredis.PushNotification):
                    self._pushed(reply)
                else:
                    replies.append(reply)
            return replies
        except TimeoutError as error:
            self.close()
            raise Broken(f"no answer within {timeout:.3g} s", "unknown") from error
        except (OSError, hiredis.HiredisError) as error:
            self.close()
            raise Broken(_explain(error), "unknown") from error
        except BaseException:  # interrupted between request and reply: the link is out of step
            self.close()
            raise

    def listen(self, waiter: str, timeout: float) -> str | None:
        """Block until a wake-up for a ticket arrives."""
        end = clock.now() + timeout
        try:
            while waiter not in self.woken:
                reply = self._reader.gets()
                if reply is MORE:
                    left = end - clock.now()
                    if left <= 0:
                        return None
                    self._limit(left)
                    self._receive()
                elif isinstance(reply, hiredis.PushNotification):
                    self._pushed(reply)
            return self.woken.pop(waiter)
        except TimeoutError:
            return None
        except (OSError, hiredis.HiredisError) as error:
            self.close()
            raise Broken(_explain(error), "not applied") from error
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        self.broken = True
        self._socket.close()

    def _limit(self, timeout: float) -> None:
        self._timeout = max(timeout, 0.001)
        self._socket.settimeout(self._timeout)

    def _receive(self) -> None:
        data = self._socket.recv(65536)
        if not data:
            raise ConnectionError("the server closed the connection")
        self._reader.feed(data)

    def _pushed(self, message: list[Any]) -> None:
        wake_up = pushed(message)
        if wake_up is not None:
            self.woken[wake_up[0]] = wake_up[1]


def _explain(error: Exception) -> str:
    if isinstance(error, hiredis.ProtocolError):
        return "the server there does not speak Redis's protocol"
    return str(error) or type(error).__name__


class BlockingNode(Node):
    """A pool that grows with the number of threads that wait at the same time."""

    def __init__(self, host: str, port: int, login: Login) -> None:
        super().__init__(host, port, login)
        self._idle: list[BlockingLink] = []

    async def take(self, timeout: float, waiter: str = "") -> BlockingLink:
        try:
            return self._idle.pop()
        except IndexError:
            scripts, self.loaded = not self.loaded, True
            return BlockingLink.connect(self.host, self.port, self.login, timeout, scripts=scripts)

    def give(self, link: Link, waiter: str = "") -> None:
        assert isinstance(link, BlockingLink)
        link.woken.clear()
        if link.broken:
            # The others were cut by the same fault more often than not: don't fail once for each.
            self._drop_idle()
        elif len(self._idle) < _IDLE_LINKS:
            self._idle.append(link)
        else:
            link.close()

    async def listen(self, link: Link, waiter: str, timeout: float) -> str | None:
        assert isinstance(link, BlockingLink)
        return link.listen(waiter, timeout)

    async def close(self) -> None:
        self._drop_idle()

    def _drop_idle(self) -> None:
        while self._idle:
            self._idle.pop().close()
