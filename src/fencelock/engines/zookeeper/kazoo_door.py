"""The door to kazoo's inside: the only module that uses names that kazoo calls private.

kazoo does the handshake, the sessions, the pings and the bytes, in one thread for each connection.
`Connection` changes how that thread reads, writes and reconnects. Three things differ from kazoo's client:

- A client has one thread instead of three: replies and watch events are handed over where they arrive.
- Requests that belong together are sent together, in the caller's thread if that is possible, and it is known
  whether they were sent at all.
- A server that does not answer is left within seconds instead of two thirds of the session.

tests/engines/zookeeper/test_kazoo_door.py fails if kazoo changes anything that is used here.
"""

from __future__ import annotations

import logging
import select
import socket
import ssl
import struct
import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

from kazoo.client import KazooClient
from kazoo.exceptions import AuthFailedError, ConnectionDropped, SessionExpiredError
from kazoo.handlers.threading import SequentialThreadingHandler
from kazoo.protocol.connection import CLOSE_RESPONSE, PING_XID, ConnectionHandler
from kazoo.protocol.serialization import CloseInstance, ReplyHeader, Watch, int_struct
from kazoo.protocol.states import KeeperState
from kazoo.retry import ForceRetryError, KazooRetry

from fencelock.core.change_times import ChangeTimes
from fencelock.engines.zookeeper.batch import Batch
from fencelock.engines.zookeeper.urls import Settings
from fencelock.io import clock

_STEP_TIMEOUT = 2.0
"""Seconds that a server gets to accept a connection, and to finish an answer that it has begun."""

_MAX_SILENCE_MS = 2500.0
"""A server that says nothing for so many milliseconds, though it was pinged halfway, is left.
The session goes on at another server."""

_MAX_REPLY_BYTES = 64 * 2**20
_LAST_XID = 2**31 - 1

_head = struct.Struct("!iii")  # the length of what follows, the number, the kind

# kazoo would write passwords into a debug log. Our errors say what goes wrong.
_silent = logging.Logger("fencelock.zookeeper")
_silent.disabled = True


class _Sockets(SequentialThreadingHandler):  # type: ignore[misc]  # kazoo has no types
    """The sockets of the connection's thread."""

    def __init__(self, tls: ssl.SSLContext | None) -> None:
        super().__init__()
        self._tls = tls

    def start(self) -> None:
        """Start none of kazoo's own threads: nothing is handed over to them."""

    def select(
        self, reading: list[Any], writing: list[Any], _: Any, timeout: float | None
    ) -> tuple[list[Any], list[Any], list[Any]]:
        if len(reading) + len(writing) == 1 and timeout is not None:  # in the middle of a message
            timeout = min(timeout, _STEP_TIMEOUT)
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
        sock = socket.create_connection(address, _STEP_TIMEOUT)
        try:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if self._tls is not None:
                sock = self._tls.wrap_socket(sock, server_hostname=hostname)
        except BaseException:
            sock.close()
            raise
        return sock


class _Client(KazooClient):  # type: ignore[misc]
    """kazoo's client. Only its session is used."""

    def _notify_pending(self, state: Any) -> None:
        self._connection.disconnected()
        super()._notify_pending(state)
        self._connection.on_loss()


class Connection(ConnectionHandler):  # type: ignore[misc]
    """A session's connection to a server, and to the next server when that fails."""

    def __init__(
        self, settings: Settings, on_loss: Callable[[], None], on_event: Callable[[int, str], None]
    ) -> None:
        credentials = settings.credentials
        client = _Client(
            hosts=",".join(
                f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
                for host, port in settings.hosts
            ),
            timeout=settings.session,
            handler=_Sockets(settings.tls),
            connection_retry=KazooRetry(
                max_tries=-1, delay=0.02, backoff=2, max_jitter=0.5, max_delay=0.4
            ),
            auth_data={("digest", credentials)} if credentials else None,
            logger=_silent,
        )
        super().__init__(client, client._conn_retry.copy(), logger=_silent)
        client._connection = self
        self._xid = 0
        self._inbox = bytearray()
        self._message: bytes | None = None
        self._wake_sent = False
        self._direct = settings.tls is None
        """Whether any thread may write to the socket. TLS allows only one thread at a time."""
        self._outbox: deque[Batch] = deque()
        """The batches that the connection's thread will send."""
        self._sending = threading.RLock()
        """Held by a thread that writes to the socket. While it is held, `server` does not become None."""
        self._unsent = b""
        """The end of what was written, if the socket did not take all of it. Guarded by `_sending`."""
        self._silent_since: float | None = None
        """Since when the server owes us an answer and has said nothing."""
        self._progress = ChangeTimes()
        """How far the servers had come, and when. Each ping tells, and each question about a node."""
        self._progress_mutex = threading.Lock()
        self._last_server: tuple[str, int] | None = None
        """The server of the last attempt or connection: the others are tried first."""
        self.on_loss = on_loss
        self._on_event = on_event
        self.server: tuple[str, int] | None = None
        """The server that it is connected to."""
        self.negotiated = 0.0
        """The length of a session in seconds, as the servers granted it; 0 if not known yet."""
        self.last_failure: Exception | None = None
        """What went wrong when it last tried to connect."""
        self.dead: Exception | None = None
        """Why it will never connect again."""

    # --- called by any thread

    @property
    def session(self) -> int | None:
        number: int | None = self.client._session_id
        return number

    def open(self) -> None:
        """Start to connect, in a thread of its own."""
        self.client.start_async()

    def submit(self, batch: Batch) -> None:
        """Send a batch as soon as there is a connection, unless it is withdrawn before."""
        if self._direct and self._sent_directly(batch):
            return
        self._outbox.append(batch)
        self._wake()
        if self.dead is not None:
            self._fail_outbox(self.dead)

    def withdraw(self, batch: Batch) -> bool:
        """Keep a batch from being sent. Returns False if it may have been sent."""
        try:
            self._outbox.remove(batch)
        except ValueError:
            return False
        return True

    def unchanged_since(self, zxid: int, now: float) -> float:
        """Since when a node is known to be as it is now, if this transaction changed it last."""
        with self._progress_mutex:
            self._progress.reached(self.client.last_zxid, now)
            return self._progress.known_since(zxid, now)

    def has_unread(self) -> bool:
        """Whether an answer has arrived that was not read yet."""
        try:
            return bool(self.handler.select([self._socket], [], [], 0)[0])
        except (OSError, TypeError, ValueError):  # there is no connection
            return False

    def leave_if_silent(self, seconds: float) -> None:
        """A request was not answered: leave the server if it has said nothing at all for so long."""
        silent = self._silent_since
        if silent is not None and clock.now() - silent >= seconds:
            self._disconnect()

    def end(self) -> None:
        """End the session, or at least the connection, and the thread."""
        thread = self._connection_routine
        self.begin_end()
        if thread is not None:
            thread.join(_STEP_TIMEOUT)
            if thread.is_alive():
                self._disconnect()
                thread.join()
        self.close()

    def begin_end(self) -> None:
        """Make the session and the thread end, without waiting for it."""
        self.client._stopped.set()
        self._wake()

    def _sent_directly(self, batch: Batch) -> bool:
        """Write in the caller's thread: to wake the connection's thread takes longer than to write."""
        if not self._sending.acquire(blocking=False):
            return False
        try:
            if self.server is None or self._outbox or self._unsent:
                return False
            payload = self._framed(batch)
            try:
                self._unsent = payload[self._socket.send(payload) :]
            except BlockingIOError:
                self._unsent = payload
            except OSError:  # it broke: its thread is about to notice
                return True
        finally:
            self._sending.release()
        if self._unsent:
            self._wake()
        return True

    def _framed(self, batch: Batch) -> bytes:
        """The bytes of a batch. It counts as sent from now on. Called with `_sending` held."""
        if self._silent_since is None:
            self._silent_since = clock.now()
        batch.sent, batch.session = True, self.session
        return b"".join([self._frame(request, batch) for request in batch.requests])

    def _frame(self, request: Any, batch: Batch | None) -> bytes:
        xid = self._xid = self._xid % _LAST_XID + 1
        # First of all: if the connection breaks while this is written, the batch has to be told.
        self.client._pending.append((request, batch, xid))
        body: bytes = request.serialize()
        return _head.pack(8 + len(body), xid, request.type) + body

    def _wake(self) -> None:
        """Make the connection's thread send what waits to be sent."""
        if not self._wake_sent:  # one byte is enough, and too many would fill the pipe
            self._wake_sent = True
            try:
                self._write_sock.send(b"\0")
            except (OSError, AttributeError):  # closed meanwhile
                self._wake_sent = False

    def _disconnect(self) -> None:
        """Leave this server. The connection's thread notices, and goes to another one."""
        sock = self._socket
        if sock is not None:
            with suppress(OSError):
                # Not through TLS, which the connection's thread is using.
                socket.socket.shutdown(sock, socket.SHUT_RDWR)

    def _taken_out(self) -> Iterator[Batch]:
        """Take the batches out of the outbox. Other threads may withdraw theirs meanwhile."""
        with suppress(IndexError):
            while True:
                yield self._outbox.popleft()

    def _fail_outbox(self, error: Exception) -> None:
        for batch in self._taken_out():
            batch.fail(error)

    # --- called in the connection's thread, most of it by kazoo

    def disconnected(self) -> None:
        """The connection is lost: from now on no request is added to those that await an answer."""
        with self._sending:
            self.server, self._unsent = None, b""

    def zk_loop(self) -> None:
        try:
            super().zk_loop()
        finally:
            self.dead = self.dead or ConnectionDropped("the client was closed")
            self._fail_outbox(self.dead)

    def _connect_loop(self, retry: Any) -> Any:
        try:
            return super()._connect_loop(retry)
        except ForceRetryError:
            if not self.negotiated:  # it never got through: the address is more likely to be wrong
                self._fail_outbox(self.last_failure or ConnectionDropped("no host resolved"))
            raise

    def _expand_client_hosts(self) -> Any:
        known = super()._expand_client_hosts()
        return sorted(known, key=lambda host: (host[0], host[2]) == self._last_server)

    def _connect_attempt(self, host: str, hostip: str, port: int, retry: Any) -> Any:
        try:
            return super()._connect_attempt(host, hostip, port, retry)
        except Exception as error:  # what the server says makes no sense
            self.last_failure = error
            self.client._session_callback(KeeperState.CONNECTING)
            return None
        finally:
            self.disconnected()
            self._last_server = host, port
            self._silent_since = None
            self._inbox.clear()

    def _connect(self, host: str, hostip: str, port: int) -> tuple[float, float]:
        session = self.session
        try:
            read_timeout, connect_timeout = super()._connect(host, hostip, port)
        except Exception as error:
            if isinstance(error, AuthFailedError):
                self.dead = error
            elif not isinstance(error, SessionExpiredError):
                self.last_failure = error.__context__ or error  # type: ignore[assignment]
            raise
        if self.session != session:  # servers that forget sessions may have forgotten everything
            with self._progress_mutex:
                self._progress = ChangeTimes()
        self.negotiated = round(read_timeout * 1.5) / 1000
        self.last_failure = None
        self.server = host, port  # last of all: a thread that sees it may write
        return min(read_timeout, _MAX_SILENCE_MS), connect_timeout

    def _read(self, length: int, timeout: float) -> Any:
        return super()._read(_checked(length), timeout)

    def _read_socket(self, read_timeout: float) -> Any:
        """Read what has arrived, often several answers at once."""
        while True:
            try:
                data = self._socket.recv(65_536)
            except ssl.SSLWantReadError:
                return None
            if not data:
                raise ConnectionDropped("socket connection broken")
            self._silent_since = None
            self._inbox += data
            while len(self._inbox) >= 4:
                end = 4 + _checked(int_struct.unpack_from(self._inbox)[0])
                if len(self._inbox) < end:
                    break
                self._message = bytes(self._inbox[4:end])
                del self._inbox[:end]
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
            with self._progress_mutex:
                self._progress.reached(reply.zxid, clock.now())
        return reply, message, offset

    def _read_watch_event(self, buffer: bytes, offset: int) -> None:
        event, _ = Watch.deserialize(buffer, offset)
        self._on_event(event.type, event.path)

    def _send_request(self, read_timeout: float, connect_timeout: float) -> None:
        self._read_sock.recv(64)
        self._wake_sent = False
        with self._sending:
            payload = b"".join([self._framed(batch) for batch in self._taken_out()])
            if self.client._stopped.is_set():
                payload += self._frame(CloseInstance, None)
            self._write(payload, connect_timeout)

    def _write(self, msg: bytes, timeout: float) -> None:
        with self._sending:
            msg, self._unsent = self._unsent + bytes(msg), b""
            super()._write(msg, timeout)


def _checked(length: int) -> int:
    """The length of a message, unless ZooKeeper would never send such a one."""
    if not 0 <= length <= _MAX_REPLY_BYTES:
        raise ConnectionDropped("it does not speak ZooKeeper's protocol")
    return length
