"""kazoo's connection, made fit for locks. Nothing else here knows how kazoo works inside.

kazoo does the handshake, the sessions, the pings and the bytes. What is different:

- One thread for a client instead of three: answers and watch events are handed over where they arrive.
- What is asked together is sent together, by whoever asks, and it is known whether it was sent at all.
- A server that does not answer is left within seconds instead of two thirds of the session.
"""

from __future__ import annotations

import logging
import select
import socket
import ssl
import struct
import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from kazoo.client import KazooClient
from kazoo.exceptions import AuthFailedError, ConnectionDropped, SessionExpiredError
from kazoo.handlers.threading import SequentialThreadingHandler
from kazoo.protocol.connection import (
    CLOSE_RESPONSE,
    CREATED_EVENT,
    PING_XID,
    ConnectionHandler,
)
from kazoo.protocol.serialization import CloseInstance, ReplyHeader, Watch, int_struct
from kazoo.protocol.states import KeeperState
from kazoo.retry import ForceRetryError, KazooRetry

from fencelock.core.change_times import ChangeTimes
from fencelock.engines.zookeeper.batch import Batch
from fencelock.io import clock

HANDSHAKE = 2.0
"""Seconds that a server gets to accept us, and to finish an answer that it has begun."""

_SILENCE_MS = 2500.0
"""Who says nothing for so long, though it was pinged halfway, is left. The session goes on elsewhere."""

_LONGEST_ANSWER = 64 * 2**20
"""Bytes; whoever announces more does not speak ZooKeeper's protocol."""

_LAST_XID = 2**31 - 1

_head = struct.Struct("!iii")  # the length of what follows, the number, the kind

# kazoo would write passwords into a debug log. What goes wrong is in our errors.
_silent = logging.Logger("fencelock.zookeeper")
_silent.disabled = True


class _Handler(SequentialThreadingHandler):  # type: ignore[misc]  # kazoo has no types
    """Sockets for the connection's thread, and no threads besides it."""

    def __init__(self, tls: ssl.SSLContext | None) -> None:
        super().__init__()
        self._tls = tls

    def start(self) -> None:
        pass

    def stop(self) -> None:
        pass

    def dispatch_callback(self, callback: Any) -> None:
        callback.func(*callback.args)

    def select(
        self, reading: list[Any], writing: list[Any], _: Any, timeout: float | None
    ) -> tuple[list[Any], list[Any], list[Any]]:
        if len(reading) + len(writing) == 1 and timeout is not None:  # in the middle of a message
            timeout = min(timeout, HANDSHAKE)
        poll = select.poll()  # kazoo's own makes and closes an epoll each time
        for sock in reading:
            poll.register(sock, select.POLLIN)
        for sock in writing:
            poll.register(sock, select.POLLOUT)
        ready = dict(poll.poll(None if timeout is None else max(0, timeout * 1000)))
        return (
            [sock for sock in reading if sock.fileno() in ready],
            [sock for sock in writing if sock.fileno() in ready],
            [],
        )

    def create_connection(self, address: tuple[str, int], hostname: str, **_: Any) -> socket.socket:
        sock = socket.create_connection(address, HANDSHAKE)
        try:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if self._tls is not None:
                sock = self._tls.wrap_socket(sock, server_hostname=hostname)
        except BaseException:
            sock.close()
            raise
        return sock


class _Client(KazooClient):  # type: ignore[misc]
    """kazoo's client, of which only the session is used."""

    def _notify_pending(self, state: Any) -> None:
        self._connection.leave_place()
        super()._notify_pending(state)


class Connection(ConnectionHandler):  # type: ignore[misc]
    """One session's way to a server, and to the next one when that fails."""

    def __init__(
        self,
        hosts: list[tuple[str, int]],
        session: float,
        credentials: str | None,
        tls: ssl.SSLContext | None,
        on_end: Callable[[], None],
        on_made: Callable[[str], None],
    ) -> None:
        retry = KazooRetry(max_tries=-1, delay=0.02, backoff=2, max_jitter=0.5, max_delay=0.4)
        client = _Client(
            hosts=",".join(
                f"[{host}]:{port}" if ":" in host else f"{host}:{port}" for host, port in hosts
            ),
            timeout=session,
            handler=_Handler(tls),
            connection_retry=retry,
            auth_data={("digest", credentials)} if credentials else None,
            logger=_silent,
        )
        super().__init__(client, client._conn_retry.copy(), logger=_silent)
        client._connection = self
        self._on_end = on_end
        self._on_made = on_made
        self._xid = 0
        self._outbox: deque[Batch] = deque()
        self._inbox = bytearray()
        self._message: bytes | None = None
        self._unsent = b""
        self._sending = threading.RLock()
        """Held by whoever writes to the socket; our place there is lost only while nobody does."""
        self._direct = tls is None  # two threads at once are too many for TLS
        self._rung = False
        self._closing = False
        self._silent_since: float | None = None
        self._failures: dict[tuple[str, int], Exception] = {}
        self._mistrusted: tuple[str, int] | None = None
        """Where it was last, in vain or until it broke: the others are tried first."""
        self._here: tuple[str, int] | None = None
        self._noting = threading.Lock()
        self._progress = ChangeTimes()
        """How far the servers had come, and when: known by each ping, and when somebody asks."""
        self.negotiated = 0.0
        """Seconds after which the servers forget a session that they do not hear of; 0: not known yet."""
        self.dead: Exception | None = None
        """Why it will never connect again."""

    # --- called by anyone

    @property
    def session(self) -> int | None:
        number: int | None = self.client._session_id
        return number

    @property
    def connected(self) -> bool:
        return self._here is not None

    def open(self) -> None:
        """Start to connect, in a thread of its own."""
        self.client.start_async()

    def submit(self, batch: Batch) -> None:
        """Send a batch as soon as there is a connection, unless it is withdrawn before."""
        if self._direct and self._send_now(batch):
            return
        self._outbox.append(batch)
        self._ring()
        if self.dead is not None:
            self._give_back(self.dead)

    def why(self) -> Exception | None:
        """What went wrong when it last tried to connect."""
        return next(reversed(list(self._failures.values())), None)

    def unread(self) -> bool:
        """Whether something has arrived that was not looked at yet."""
        poll = select.poll()
        try:
            poll.register(self._socket, select.POLLIN)
            return bool(poll.poll(0))
        except (OSError, TypeError, ValueError):  # there is no connection
            return False

    def unchanged_since(self, zxid: int, now: float) -> float:
        """From when on a node is known to have been as it is now, if this transaction was its last."""
        with self._noting:
            self._progress.reached(self.client.last_zxid, now)
            return self._progress.known_since(zxid, now)

    def doubt(self, since: float) -> None:
        """A request was not answered: leave a server that has said nothing at all for so long."""
        silent = self._silent_since
        if silent is not None and clock.now() - silent >= since:
            self._hang_up()

    def end(self) -> None:
        """End the session, or at least the connection, and the thread."""
        thread = self._connection_routine
        self.finish()
        if thread is not None:
            thread.join(HANDSHAKE)
            if thread.is_alive():
                self._hang_up()
                thread.join()
        self.close()

    def finish(self) -> None:
        """Have the session and the thread end, without waiting for it."""
        self._closing = True
        self.client._stopped.set()
        self._ring()

    def _send_now(self, batch: Batch) -> bool:
        """Write from the caller's own thread: to wake the connection's takes longer than to write."""
        if not self._sending.acquire(blocking=False):
            return False
        try:
            if self._here is None or self._outbox or self._unsent:
                return False
            payload = self._packed(batch)
            try:
                self._unsent = payload[self._socket.send(payload) :]
            except BlockingIOError:
                self._unsent = payload
            except OSError:  # it broke: its thread is about to notice
                return True
        finally:
            self._sending.release()
        if self._unsent:
            self._ring()
        return True

    def leave_place(self) -> None:
        """The connection is lost: from now on nothing is added to what awaits an answer."""
        with self._sending:
            self._here, self._unsent = None, b""

    def _ring(self) -> None:
        if not self._rung:  # one byte is enough, and too many would fill the pipe
            self._rung = True
            try:
                self._write_sock.send(b"\0")
            except (OSError, AttributeError):  # closed meanwhile
                self._rung = False

    def _hang_up(self) -> None:
        sock = self._socket
        if sock is not None:
            with suppress(OSError):
                # Past TLS, for its thread uses that; which notices, and closes it.
                socket.socket.shutdown(sock, socket.SHUT_RDWR)

    # --- called by kazoo, in the connection's thread

    def zk_loop(self) -> None:
        try:
            super().zk_loop()
        finally:
            self.dead = self.dead or ConnectionDropped("the client was closed")
            self._give_back(self.dead)
            self._on_end()

    def _connect_loop(self, retry: Any) -> Any:
        try:
            return super()._connect_loop(retry)
        except ForceRetryError:
            if not self.negotiated:  # never got through: more likely the address than the server
                self._give_back(self.why() or ConnectionDropped("no host resolved"))
            raise

    def _expand_client_hosts(self) -> Any:
        known = super()._expand_client_hosts()
        return sorted(known, key=lambda host: (host[0], host[2]) == self._mistrusted)

    def _connect_attempt(self, host: str, hostip: str, port: int, retry: Any) -> Any:
        self._rw_server = None
        try:
            return super()._connect_attempt(host, hostip, port, retry)
        except Exception as error:  # what it says makes no sense
            self._failures[host, port] = error
            self.client._session_callback(KeeperState.CONNECTING)
            return None
        finally:
            self.leave_place()
            self._mistrusted = host, port
            self._silent_since = None
            self._inbox.clear()

    def _connect(self, host: str, hostip: str, port: int) -> tuple[float, float]:
        self._failures.pop((host, port), None)
        session = self.session
        try:
            read_timeout, connect_timeout = super()._connect(host, hostip, port)
        except AuthFailedError as error:
            self.dead = error
            raise
        except SessionExpiredError:
            raise
        except Exception as error:
            self._failures[host, port] = error.__context__ or error  # type: ignore[assignment]
            raise
        if self.session != session:  # servers that forget sessions may have forgotten everything
            with self._noting:
                self._progress = ChangeTimes()
        self.negotiated = round(read_timeout * 1.5) / 1000
        self._failures.clear()
        self._here = host, port  # last of all: whoever sees it may write
        return min(read_timeout, _SILENCE_MS), connect_timeout

    def _read(self, length: int, timeout: float) -> bytes:
        if not 0 <= length <= _LONGEST_ANSWER:
            raise ConnectionDropped("it does not speak ZooKeeper's protocol")
        data: bytes = super()._read(length, timeout)
        return data

    def _read_socket(self, read_timeout: float) -> Any:
        """Take in what has arrived, often several answers at once."""
        while True:
            try:
                data = self._socket.recv(65_536)
            except ssl.SSLWantReadError:
                return None
            if not data:
                raise ConnectionDropped("socket connection broken")
            self._silent_since = None
            self._inbox += data
            while self._take_message():
                if super()._read_socket(read_timeout) == CLOSE_RESPONSE:
                    return CLOSE_RESPONSE
            if not (isinstance(self._socket, ssl.SSLSocket) and self._socket.pending()):
                return None

    def _take_message(self) -> bool:
        """Take the next message out of what has arrived, if all of it is there."""
        inbox = self._inbox
        if len(inbox) < 4:
            return False
        size: int = int_struct.unpack_from(inbox)[0]
        if not 0 <= size <= _LONGEST_ANSWER:
            raise ConnectionDropped("it does not speak ZooKeeper's protocol")
        if len(inbox) < 4 + size:
            return False
        self._message = bytes(inbox[4 : 4 + size])
        del inbox[: 4 + size]
        return True

    def _read_header(self, timeout: float) -> tuple[Any, bytes, int]:
        message, self._message = self._message, None
        if message is None:  # during the handshake
            header: tuple[Any, bytes, int] = super()._read_header(timeout)
            return header
        reply, offset = ReplyHeader.deserialize(message, 0)
        if reply.xid == PING_XID:
            with self._noting:
                self._progress.reached(reply.zxid, clock.now())
        return reply, message, offset

    def _read_watch_event(self, buffer: bytes, offset: int) -> None:
        event, _ = Watch.deserialize(buffer, offset)
        if event.type == CREATED_EVENT:  # kazoo was not told who waits for that
            self._on_made(event.path)
        else:
            super()._read_watch_event(buffer, offset)

    def _send_request(self, read_timeout: float, connect_timeout: float) -> None:
        self._read_sock.recv(64)
        self._rung = False
        with self._sending:
            payload = b""
            while self._outbox:
                payload += self._packed(self._outbox.popleft())
            if self._closing:
                payload += self._numbered(CloseInstance, None)
            self._write(payload, connect_timeout)

    def _write(self, msg: bytes, timeout: float) -> None:
        with self._sending:
            msg, self._unsent = self._unsent + bytes(msg), b""
            super()._write(msg, timeout)

    def _packed(self, batch: Batch) -> bytes:
        if self._silent_since is None:
            self._silent_since = clock.now()
        return b"".join(
            [self._numbered(request, slot) for request, slot in batch.sending(self.session)]
        )

    def _numbered(self, request: Any, slot: Any) -> bytes:
        xid = self._xid = self._xid % _LAST_XID + 1
        # First: should the connection break while it is written, it is among those to be told.
        self.client._pending.append((request, slot, xid))
        body: bytes = request.serialize()
        return _head.pack(8 + len(body), xid, request.type) + body

    def _give_back(self, error: Exception) -> None:
        while self._outbox:
            self._outbox.popleft().fail(error)
