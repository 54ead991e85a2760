"""The door to kazoo's inside: the only module that uses names that kazoo calls private.

kazoo does the handshake, the sessions, the pings and the bytes, in one thread for each connection.
`KazooConnection` changes how that thread reads, writes and reconnects, and gives public names to what the
rest of the engine needs. tests/engines/zookeeper/test_kazoo_door.py fails if kazoo changes any of these.
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
from kazoo.protocol.connection import (
    CLOSE_RESPONSE,
    CREATED_EVENT,
    PING_XID,
    ConnectionHandler,
)
from kazoo.protocol.serialization import CloseInstance, ReplyHeader, Watch
from kazoo.protocol.states import KeeperState
from kazoo.retry import ForceRetryError, KazooRetry

from fencelock.core.change_times import ChangeTimes
from fencelock.engines.zookeeper.batch import Batch
from fencelock.engines.zookeeper.sockets import (
    STEP_TIMEOUT,
    SocketHandler,
    check_length,
    take_message,
)
from fencelock.engines.zookeeper.urls import Settings
from fencelock.io import clock

_MAX_SILENCE_MS = 2500.0
"""A server that says nothing for so many milliseconds, though it was pinged halfway, is left.
The session goes on at another server."""

_LAST_XID = 2**31 - 1

_head = struct.Struct("!iii")  # the length of what follows, the number, the kind

# kazoo would write passwords into a debug log. Our errors say what goes wrong.
_silent = logging.Logger("fencelock.zookeeper")
_silent.disabled = True

Server = tuple[str, int]


class _Client(KazooClient):  # type: ignore[misc]  # kazoo has no types
    """kazoo's client. Only its session is used."""

    def _notify_pending(self, state: Any) -> None:
        self._connection.disconnected()
        super()._notify_pending(state)


class KazooConnection(ConnectionHandler):  # type: ignore[misc]
    """A session's connection to a server, and to the next server when that fails."""

    def __init__(
        self,
        settings: Settings,
        on_loss: Callable[[], None],
        on_created: Callable[[str], None],
    ) -> None:
        credentials = settings.credentials
        client = _Client(
            hosts=",".join(
                f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
                for host, port in settings.hosts
            ),
            timeout=settings.session,
            handler=SocketHandler(settings.tls),
            connection_retry=KazooRetry(
                max_tries=-1, delay=0.02, backoff=2, max_jitter=0.5, max_delay=0.4
            ),
            auth_data={("digest", credentials)} if credentials else None,
            logger=_silent,
        )
        super().__init__(client, client._conn_retry.copy(), logger=_silent)
        client._connection = self
        self._xid = 0
        self._on_loss = on_loss
        self._on_created = on_created
        self._inbox = bytearray()
        self._message: bytes | None = None
        self._wake_sent = False
        self._failures: dict[Server, Exception] = {}
        self._last_server: Server | None = None
        """The server of the last attempt or connection: the others are tried first."""
        self.direct = settings.tls is None
        """Whether any thread may write to the socket. TLS allows only one thread at a time."""
        self.outbox: deque[Batch] = deque()
        """The batches that the connection's thread will send."""
        self.sending = threading.RLock()
        """Held by a thread that writes to the socket. While it is held, `server` does not become None."""
        self.unsent = b""
        """The end of what was written, if the socket did not take all of it. Guarded by `sending`."""
        self.server: Server | None = None
        """The server that it is connected to."""
        self.negotiated = 0.0
        """The length of a session in seconds, as the servers granted it; 0 if not known yet."""
        self.silent_since: float | None = None
        """Since when the server owes us an answer and has said nothing."""
        self.dead: Exception | None = None
        """Why it will never connect again."""
        self.progress = ChangeTimes()
        """How far the servers had come, and when. Each ping tells, and each question about a node."""
        self.progress_mutex = threading.Lock()

    # --- called by any thread

    @property
    def session(self) -> int | None:
        number: int | None = self.client._session_id
        return number

    @property
    def last_failure(self) -> Exception | None:
        """What went wrong when it last tried to connect."""
        return next(reversed(list(self._failures.values())), None)

    def has_unread(self) -> bool:
        """Whether an answer has arrived that was not read yet."""
        poll = select.poll()
        try:
            poll.register(self._socket, select.POLLIN)
            return bool(poll.poll(0))
        except (OSError, TypeError, ValueError):  # there is no connection
            return False

    def open(self) -> None:
        """Start to connect, in a thread of its own."""
        self.client.start_async()

    def frame(self, batch: Batch) -> bytes:
        """The bytes of a batch. It counts as sent from now on. Called with `sending` held."""
        if self.silent_since is None:
            self.silent_since = clock.now()
        return b"".join([self._frame(one, batch) for one in batch.to_send(self.session)])

    def _frame(self, request: Any, batch: Batch | None) -> bytes:
        xid = self._xid = self._xid % _LAST_XID + 1
        # First of all: if the connection breaks while this is written, the batch has to be told.
        self.client._pending.append((request, batch, xid))
        body: bytes = request.serialize()
        return _head.pack(8 + len(body), xid, request.type) + body

    def write_some(self, payload: bytes) -> int:
        """Write without waiting. Returns how many bytes the socket took. Called with `sending` held."""
        return int(self._socket.send(payload))

    def wake(self) -> None:
        """Make the connection's thread send what waits to be sent."""
        if not self._wake_sent:  # one byte is enough, and too many would fill the pipe
            self._wake_sent = True
            try:
                self._write_sock.send(b"\0")
            except (OSError, AttributeError):  # closed meanwhile
                self._wake_sent = False

    def disconnect(self) -> None:
        """Leave this server. The connection's thread notices, and goes to another one."""
        sock = self._socket
        if sock is not None:
            with suppress(OSError):
                # Not through TLS, which the connection's thread is using.
                socket.socket.shutdown(sock, socket.SHUT_RDWR)

    def fail_outbox(self, error: Exception) -> None:
        """Give up on what waits to be sent."""
        while self.outbox:
            self.outbox.popleft().fail(error)

    def end(self) -> None:
        """End the session, or at least the connection, and the thread."""
        thread = self._connection_routine
        self.begin_end()
        if thread is not None:
            thread.join(STEP_TIMEOUT)
            if thread.is_alive():
                self.disconnect()
                thread.join()
        self.close()

    def begin_end(self) -> None:
        """Make the session and the thread end, without waiting for it."""
        self.client._stopped.set()
        self.wake()

    def disconnected(self) -> None:
        """The connection is lost: from now on no request is added to those that await an answer."""
        with self.sending:
            self.server, self.unsent = None, b""

    # --- called by kazoo, in the connection's thread

    def zk_loop(self) -> None:
        try:
            super().zk_loop()
        finally:
            self.dead = self.dead or ConnectionDropped("the client was closed")
            self.fail_outbox(self.dead)
            self._on_loss()

    def _connect_loop(self, retry: Any) -> Any:
        try:
            return super()._connect_loop(retry)
        except ForceRetryError:
            if not self.negotiated:  # it never got through: the address is more likely to be wrong
                self.fail_outbox(self.last_failure or ConnectionDropped("no host resolved"))
            raise

    def _expand_client_hosts(self) -> Any:
        known = super()._expand_client_hosts()
        return sorted(known, key=lambda host: (host[0], host[2]) == self._last_server)

    def _connect_attempt(self, host: str, hostip: str, port: int, retry: Any) -> Any:
        try:
            return super()._connect_attempt(host, hostip, port, retry)
        except Exception as error:  # what the server says makes no sense
            self._failures[host, port] = error
            self.client._session_callback(KeeperState.CONNECTING)
            return None
        finally:
            self.disconnected()
            self._last_server = host, port
            self.silent_since = None
            self._inbox.clear()

    def _connect(self, host: str, hostip: str, port: int) -> tuple[float, float]:
        self._failures.pop((host, port), None)
        session = self.session
        try:
            read_timeout, connect_timeout = super()._connect(host, hostip, port)
        except Exception as error:
            if isinstance(error, AuthFailedError):
                self.dead = error
            elif not isinstance(error, SessionExpiredError):
                self._failures[host, port] = error.__context__ or error  # type: ignore[assignment]
            raise
        if self.session != session:  # servers that forget sessions may have forgotten everything
            with self.progress_mutex:
                self.progress = ChangeTimes()
        self.negotiated = round(read_timeout * 1.5) / 1000
        self._failures.clear()
        self.server = host, port  # last of all: a thread that sees it may write
        return min(read_timeout, _MAX_SILENCE_MS), connect_timeout

    def _read(self, length: int, timeout: float) -> Any:
        return super()._read(check_length(length), timeout)

    def _read_socket(self, read_timeout: float) -> Any:
        """Read what has arrived, often several answers at once."""
        while True:
            try:
                data = self._socket.recv(65_536)
            except ssl.SSLWantReadError:
                return None
            if not data:
                raise ConnectionDropped("socket connection broken")
            self.silent_since = None
            self._inbox += data
            while (message := take_message(self._inbox)) is not None:
                self._message = message
                if super()._read_socket(read_timeout) == CLOSE_RESPONSE:
                    return CLOSE_RESPONSE
            if not (isinstance(self._socket, ssl.SSLSocket) and self._socket.pending()):
                return None

    def _read_header(self, timeout: float) -> Any:
        message, self._message = self._message, None
        if message is None:  # during the handshake
            return super()._read_header(timeout)
        reply, offset = ReplyHeader.deserialize(message, 0)
        if reply.xid == PING_XID:
            with self.progress_mutex:
                self.progress.reached(reply.zxid, clock.now())
        return reply, message, offset

    def _read_watch_event(self, buffer: bytes, offset: int) -> None:
        event, _ = Watch.deserialize(buffer, offset)
        if event.type == CREATED_EVENT:  # kazoo was not told of this watch
            self._on_created(event.path)
        else:
            super()._read_watch_event(buffer, offset)

    def _send_request(self, read_timeout: float, connect_timeout: float) -> None:
        self._read_sock.recv(64)
        self._wake_sent = False
        with self.sending:
            payload = b""
            while self.outbox:
                payload += self.frame(self.outbox.popleft())
            if self.client._stopped.is_set():
                payload += self._frame(CloseInstance, None)
            self._write(payload, connect_timeout)

    def _write(self, msg: bytes, timeout: float) -> None:
        with self.sending:
            msg, self.unsent = self.unsent + bytes(msg), b""
            super()._write(msg, timeout)
