"""From requests to replies within a time limit, over one session at a time."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from kazoo.exceptions import SessionExpiredError

from fencelock.engines.failure import RequestFailed
from fencelock.engines.zookeeper.batch import Batch
from fencelock.engines.zookeeper.kazoo_door import Connection
from fencelock.engines.zookeeper.urls import Settings
from fencelock.io.contract import IO

_MAX_SILENCE = 1.0
"""Seconds of silence after which a client leaves a server that has not answered a request in time."""

_MIN_TIMEOUT = 0.25
"""Minimum timeout of a request, in seconds. An operation may have used up its time before its last request,
as in a process that was stopped in between."""

_READ_SLACK = 0.5
"""Seconds to read a reply that has arrived when the time is up."""

_TIMEOUT_SLACK = 0.05
"""Seconds to hand over a reply that has just been read when the time is up."""

_NO_TLS = "does it speak TLS at all? if not, use zookeeper://"

_HINTS = {  # by a part of what went wrong when it tried to connect; the last one fits all
    "CERTIFICATE_VERIFY_FAILED": (
        "name the authority that signed its certificate with ?ca=FILE, "
        "and the host as it stands in the certificate"
    ),
    "WRONG_VERSION_NUMBER": _NO_TLS,
    "record layer failure": _NO_TLS,
    "handshake": _NO_TLS,
    "EOF occurred": _NO_TLS,
    "broken": (
        "it hung up: is it part of an ensemble that has lost its majority? is this its address "
        "and port? if it wants TLS, use zookeepers://"
    ),
    "protocol": "is this the right address and port? for TLS use zookeepers://",
    "AuthFailed": "authentication failed: check the user and the password in the URL",
    "was closed": "make another client",
    "": "are the servers running there, and have they a majority?",
}


class Transport:
    """One session, opened when first needed, and opened again when it is lost."""

    on_loss: Callable[[], None]
    """Called in the connection's thread when all watches are lost."""
    on_event: Callable[[int, str], None]
    """Called there with the kind and the path when something happened to a node that is watched."""

    def __init__(self, settings: Settings, io: IO) -> None:
        self._settings = settings
        self._hosts = ", ".join(f"{host}:{port}" for host, port in settings.hosts)
        self._io = io
        self._mutex = threading.Lock()
        self._connection: Connection | None = None
        self._closed = False

    @property
    def session(self) -> float:
        """The length of a session in seconds, as the servers granted it or, before that, as asked for."""
        granted = 0.0 if self._connection is None else self._connection.negotiated
        return granted or self._settings.session

    async def exchange(self, requests: list[Any], until: float) -> Batch:
        """Send requests in one write and read the replies. `RequestFailed` if any of them is missing."""
        event = self._io.event()
        batch = Batch(requests, event)
        connection = self._opened()
        try:
            connection.submit(batch)
            started = self._io.now()
            answered = await event.wait(max(until - started, _MIN_TIMEOUT))
            if not answered:
                # After a pause of this process, the reply may have arrived, and only the time is up.
                answered = await event.wait(
                    _READ_SLACK if connection.has_unread() else _TIMEOUT_SLACK
                )
        except BaseException:
            connection.withdraw(batch)
            raise
        if not answered or batch.failure is not None:
            raise self._failed(connection, batch, self._io.now() - started)
        return batch

    def send(self, request: Any) -> None:
        """Send a request without waiting for the reply, if there is a connection."""
        connection = self._connection
        if connection is not None and connection.server is not None:
            connection.submit(Batch([request], self._io.event()))

    def unchanged_since(self, zxid: int, now: float) -> float:
        """Since when a node is known to be as it is now, if this transaction changed it last."""
        connection = self._connection
        return now if connection is None else connection.unchanged_since(zxid, now)

    async def close(self) -> None:
        """End the session, and with it all nodes that are ephemeral."""
        with self._mutex:
            self._closed = True
            connection = self._connection
        if connection is not None:
            await self._io.call(connection.end)

    def abandon(self) -> None:
        """End the session and its thread, without waiting for it."""
        with self._mutex:
            self._closed = True
            if self._connection is not None:
                self._connection.begin_end()

    def _opened(self) -> Connection:
        with self._mutex:
            if self._closed:
                raise RequestFailed("the client was closed", "not applied")
            if self._connection is None or self._connection.dead is not None:
                if self._connection is not None:
                    self._connection.end()
                self._connection = Connection(self._settings, self.on_loss, self.on_event)
                try:
                    self._connection.open()
                except BaseException:  # a signal: no later call would open it
                    self._connection.begin_end()
                    self._connection = None
                    raise
            return self._connection

    def _failed(self, connection: Connection, batch: Batch, waited: float) -> RequestFailed:
        failure = batch.failure
        if failure is None and connection.withdraw(batch):
            failure = connection.last_failure
            return self._unreachable(failure or f"no connection within {waited:.3g} s")
        if failure is None:
            connection.leave_if_silent(_MAX_SILENCE)
            return RequestFailed(f"no answer within {waited:.3g} s", "unknown")
        if not batch.sent:
            return self._unreachable(failure)
        expired = isinstance(failure, SessionExpiredError)
        what = "the session has expired" if expired else "the connection was lost"
        return RequestFailed(what, "unknown")

    def _unreachable(self, error: Exception | str) -> RequestFailed:
        why = str(getattr(error, "strerror", None) or error) or type(error).__name__
        hint = next(hint for part, hint in _HINTS.items() if part in why)
        return RequestFailed(f"can't connect to {self._hosts}: {why}: {hint}", "not applied")
