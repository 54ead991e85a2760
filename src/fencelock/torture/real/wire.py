"""A TCP proxy that misbehaves on demand: the network between one client and one server."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from enum import Enum, auto
from typing import Self

from fencelock.servers.process import HOST, free_port


class Mode(Enum):
    """What happens to what is sent."""

    FORWARD = auto()
    DEAF = auto()
    """Requests are lost, replies arrive."""
    MUTE = auto()
    """Requests arrive, replies are lost."""
    BLACK_HOLE = auto()
    """Everything is lost, and connections stay open."""
    REFUSE = auto()
    """Connections are cut, and new ones refused, as if nothing listened on the port."""


_LOSES_REQUESTS = (Mode.DEAF, Mode.BLACK_HOLE)
_LOSES_REPLIES = (Mode.MUTE, Mode.BLACK_HOLE)


class Wire:
    """Forwards connections of a port of this machine to a server, until it is told to misbehave.

    Each direction of each connection has a thread.
    """

    def __init__(self, host: str, port: int) -> None:
        self.target = (host, port)
        self.port = 0
        self.connections = 0
        self.mode = Mode.REFUSE
        self._delay = 0.0
        self._lock = threading.Lock()
        self._listener: socket.socket | None = None
        self._links: set[Link] = set()
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

    def lose(self, mode: Mode) -> None:
        """Lose what this mode loses, and leave connections open."""
        self.mode = mode

    def delay(self, seconds: float) -> None:
        """Delay everything that is sent from now on, in both directions, by this many seconds."""
        self._delay = seconds

    def refuse(self) -> None:
        """Cut all connections and refuse new ones."""
        with self._lock:
            self.mode = Mode.REFUSE
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
            self.mode = Mode.FORWARD
            self._delay = 0.0
            for link in self._links:
                if link.has_lost_bytes:
                    link.cut()
            if self._listener is None:
                self._listener = socket.create_server((HOST, self.port))
                self._spawn(self._accept, self._listener)

    def _spawn(self, target: Callable[..., None], *args: object) -> threading.Thread:
        thread = threading.Thread(target=target, args=args, daemon=True)
        self._threads = [each for each in self._threads if each.is_alive()]
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
        with client, suppress(OSError), socket.create_connection(self.target) as server:
            for end in (client, server):
                end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            link = Link(client, server)
            with self._lock:
                if self.mode is Mode.REFUSE:
                    return
                self._links.add(link)
            backward = self._spawn(self._pump_to_client, link)
            self._pump_to_server(link)
            backward.join()
            with self._lock:
                self._links.remove(link)

    def _pump_to_server(self, link: Link) -> None:
        for piece in link.pieces(link.client):
            link.is_cut.wait(self._delay)
            if not self._loses(link, _LOSES_REQUESTS):
                self._to_server(link, piece)

    def _pump_to_client(self, link: Link) -> None:
        for piece in self._replies_of(link):
            if not self._loses(link, _LOSES_REPLIES):
                self._to_client(link, piece)

    def _replies_of(self, link: Link) -> Iterator[bytes]:
        for piece in link.pieces(link.server):
            link.is_cut.wait(self._delay)
            yield piece

    def _to_server(self, link: Link, piece: bytes) -> None:
        link.send(link.server, piece)

    def _to_client(self, link: Link, piece: bytes) -> None:
        link.send(link.client, piece)

    def _loses(self, link: Link, modes: tuple[Mode, ...]) -> bool:
        with self._lock:
            if self.mode in modes:
                link.has_lost_bytes = True
                return True
            return False


class Link:
    """A client's connection and our connection to the server for it. Both end together."""

    def __init__(self, client: socket.socket, server: socket.socket) -> None:
        self.client = client
        self.server = server
        self.has_lost_bytes = False
        self.is_cut = threading.Event()

    def pieces(self, end: socket.socket) -> Iterator[bytes]:
        """What arrives at one end, until the link is cut."""
        with suppress(OSError):
            while piece := end.recv(65_536):
                yield piece
        self.cut()

    def send(self, end: socket.socket, piece: bytes) -> None:
        """Pass on what arrived."""
        with suppress(OSError):  # the other side is gone; `pieces` will notice
            end.sendall(piece)

    def cut(self) -> None:
        """End both connections."""
        self.is_cut.set()
        for end in (self.client, self.server):
            with suppress(OSError):  # not connected any more
                end.shutdown(socket.SHUT_RDWR)
