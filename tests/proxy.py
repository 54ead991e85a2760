"""A TCP proxy that misbehaves on demand: the network between a client and its server."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator

import hiredis

from fencelock.servers.process import HOST
from fencelock.torture.real.wire import Link, Mode, Wire

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


class TcpProxy(Wire):
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
        super().__init__(HOST, target_port)
        self.bytes_to_server = 0
        self.bytes_to_client = 0
        self._replies = replies
        self._replies_until_cut = 0
        self._cuts_to_come: list[int] = []
        self._cut = threading.Event()
        self._marker = b""
        self._harm: Harm = garbled
        self._damaged = threading.Event()

    @property
    def target_port(self) -> int:
        return self.target[1]

    @target_port.setter
    def target_port(self, port: int) -> None:
        self.target = (HOST, port)

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
        self.lose(Mode.MUTE)

    def black_hole(self) -> None:
        """Accept connections and requests, and swallow everything."""
        self.lose(Mode.BLACK_HOLE)

    def heal(self) -> None:
        self._replies_until_cut = 0
        super().heal()

    def _to_server(self, link: Link, piece: bytes) -> None:
        self.bytes_to_server += len(piece)
        super()._to_server(link, piece)

    def _to_client(self, link: Link, piece: bytes) -> None:
        self.bytes_to_client += len(piece)
        super()._to_client(link, self._harmed(piece))

    def _replies_of(self, link: Link) -> Iterator[bytes]:
        count = self._replies()
        for piece in super()._replies_of(link):
            if not self._cuts(link, count(piece)):
                yield piece

    def _cuts(self, link: Link, replies: int) -> bool:
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
