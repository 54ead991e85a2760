"""A TCP proxy that misbehaves on demand: the network between a client and its server."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from enum import Enum, auto
from typing import Self

import hiredis

from tests.servers import HOST, free_port

ReplyCounter = Callable[[bytes], int]


def resp_replies() -> ReplyCounter:
    """Count the replies in a RESP stream, piece by piece. A RESP3 push replies to nothing."""
    nothing = object()
    reader = hiredis.Reader(notEnoughData=nothing)

    def count(piece: bytes) -> int:
        reader.feed(piece)
        parsed = iter(reader.gets, nothing)
        return sum(not isinstance(reply, hiredis.PushNotification) for reply in parsed)

    return count


Harm = Callable[[bytes], bytes]


def garbled(piece: bytes) -> bytes:
    """Damage the beginning of a packet, where protocols say what follows and how long it is."""
    return b"\xff" * 5 + piece[5:]


class Mode(Enum):
    FORWARD = auto()
    MUTE = auto()
    BLACK_HOLE = auto()
    REFUSE = auto()


class TcpProxy:
    """Forwards connections to a port on this machine, until a test tells it to misbehave.

        with TcpProxy(server.port) as proxy:
            cut = proxy.cut_after_request()
            ...  # the server executes the request of a client of proxy.port; the reply is lost
            assert cut.is_set()

    For a protocol other than RESP, `replies` makes the counter of the replies on one connection.
    """

    def __init__(
        self, target_port: int, replies: Callable[[], ReplyCounter] = resp_replies
    ) -> None:
        self.target_port = target_port
        self.port = 0
        self.connections = 0
        self.bytes_to_server = 0
        self.bytes_to_client = 0
        self._replies = replies
        self._mode = Mode.REFUSE
        self._delay = 0.0
        self._replies_until_cut = 0
        self._cuts_to_come: list[int] = []
        self._cut = threading.Event()
        self._marker = b""
        self._harm: Harm = garbled
        self._damaged = threading.Event()
        self._lock = threading.Lock()
        self._listener: socket.socket | None = None
        self._links: set[_Link] = set()
        self._threads: list[threading.Thread] = []

    def __enter__(self) -> Self:
        while self._listener is None:
            self.port = free_port()
            with suppress(OSError):  # another process has taken the port
                self.heal()
        return self

    def __exit__(self, *_: object) -> None:
        self.refuse()
        for thread in self._threads:
            thread.join()

    def cut_after_request(self, n: int = 1, *then: int) -> threading.Event:
        """Lose the reply to the n-th request from now, and the connection with it.

        The server has certainly executed the request then, because it has answered it. The event is set when
        the reply is lost. Other replies in the same packet are lost as well.
        `then` names further requests: `cut_after_request(1, 2)` also cuts the second request after that.
        """
        with self._lock:
            self._replies_until_cut = n
            self._cuts_to_come = list(then)
            self._cut = threading.Event()
            return self._cut

    def damage(self, marker: bytes, harm: Harm = garbled) -> threading.Event:
        """Damage the next packet from the server that contains these bytes, and no other.

        The event is set when the packet is damaged.
        """
        with self._lock:
            self._marker, self._harm = marker, harm
            self._damaged = threading.Event()
            return self._damaged

    def mute(self) -> None:
        """Deliver requests, swallow the replies, leave connections open."""
        self._mode = Mode.MUTE

    def black_hole(self) -> None:
        """Accept connections and requests, and swallow everything."""
        self._mode = Mode.BLACK_HOLE

    def delay(self, seconds: float) -> None:
        """Delay everything that is sent from now on, in both directions, by this many seconds."""
        self._delay = seconds

    def refuse(self) -> None:
        """Cut all connections and refuse new ones, as if nothing listened on the port."""
        with self._lock:
            self._mode = Mode.REFUSE
            listener, self._listener = self._listener, None
        if listener is not None:
            listener.shutdown(socket.SHUT_RDWR)  # unlike close, this wakes the accepting thread
            listener.close()
        self.cut()

    def cut(self) -> None:
        """Cut all connections that are open now."""
        with self._lock:
            for link in self._links:
                link.cut()

    def heal(self) -> None:
        """Forward again. Connections that have lost bytes are cut, because their streams are broken."""
        with self._lock:
            self._mode = Mode.FORWARD
            self._delay = 0.0
            self._replies_until_cut = 0
            for link in self._links:
                if link.has_lost_bytes:
                    link.cut()
            if self._listener is None:
                self._listener = socket.create_server((HOST, self.port))
                self._spawn(self._accept, self._listener)

    def _spawn(self, target: Callable[..., None], *args: object) -> threading.Thread:
        thread = threading.Thread(target=target, args=args, daemon=True)
        self._threads.append(thread)
        thread.start()
        return thread

    def _accept(self, listener: socket.socket) -> None:
        with suppress(OSError):  # closed by refuse()
            while True:
                client, _ = listener.accept()
                self.connections += 1
                self._spawn(self._connect, client)

    def _connect(self, client: socket.socket) -> None:
        target = (HOST, self.target_port)
        with client, suppress(OSError), socket.create_connection(target) as server:
            link = _Link(client, server)
            with self._lock:
                if self._mode is Mode.REFUSE:
                    return
                self._links.add(link)
            backward = self._spawn(self._pump_to_client, link)
            self._pump_to_server(link)
            backward.join()
            with self._lock:
                self._links.remove(link)

    def _pump_to_server(self, link: _Link) -> None:
        for piece in link.pieces(link.client):
            link.is_cut.wait(self._delay)
            if not self._swallows(link, Mode.BLACK_HOLE):
                self.bytes_to_server += len(piece)
                link.send(link.server, piece)

    def _pump_to_client(self, link: _Link) -> None:
        count = self._replies()
        for piece in link.pieces(link.server):
            link.is_cut.wait(self._delay)
            if self._cuts(link, count(piece)):
                continue
            if not self._swallows(link, Mode.BLACK_HOLE, Mode.MUTE):
                self.bytes_to_client += len(piece)
                link.send(link.client, self._harmed(piece))

    def _cuts(self, link: _Link, replies: int) -> bool:
        with self._lock:
            if not 0 < self._replies_until_cut <= replies:
                self._replies_until_cut = max(0, self._replies_until_cut - replies)
                return False
            if self._cuts_to_come:
                self._replies_until_cut = self._cuts_to_come.pop(0)
            else:
                self._replies_until_cut = 0
                self._cut.set()  # first: a test may look as soon as the connection is gone
            link.cut()
            return True

    def _harmed(self, piece: bytes) -> bytes:
        with self._lock:
            if not self._marker or self._marker not in piece:
                return piece
            self._marker = b""
            self._damaged.set()
            return self._harm(piece)

    def _swallows(self, link: _Link, *modes: Mode) -> bool:
        with self._lock:
            if self._mode in modes:
                link.has_lost_bytes = True
                return True
            return False


class _Link:
    """A client's connection and our connection to the server for it. Both end together."""

    def __init__(self, client: socket.socket, server: socket.socket) -> None:
        self.client = client
        self.server = server
        self.has_lost_bytes = False
        self.is_cut = threading.Event()

    def pieces(self, end: socket.socket) -> Iterator[bytes]:
        with suppress(OSError):
            while piece := end.recv(65_536):
                yield piece
        self.cut()

    def send(self, end: socket.socket, piece: bytes) -> None:
        with suppress(OSError):  # the other side is gone; `pieces` will notice
            end.sendall(piece)

    def cut(self) -> None:
        self.is_cut.set()
        for end in (self.client, self.server):
            with suppress(OSError):  # not connected any more
                end.shutdown(socket.SHUT_RDWR)
