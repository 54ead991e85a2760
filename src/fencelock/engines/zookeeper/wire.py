"""From requests to answers, within a time limit: what the engine knows of the connection."""

from __future__ import annotations

import ssl
import threading
from collections.abc import Callable
from functools import partial
from typing import Any

from kazoo.exceptions import SessionExpiredError

from fencelock.engines.failure import RequestFailed
from fencelock.engines.zookeeper.batch import Batch
from fencelock.engines.zookeeper.connection import Connection
from fencelock.io.contract import IO

_SUSPICIOUS = 1.0
"""Seconds of silence after which a server that owes an answer is left, once somebody gave up on it."""

_LEAST = 0.25
"""Seconds that a step gets even if the one before it used up the time, as it does in a process that was
stopped in between."""

_GRACE = 0.5
"""Seconds for reading what has arrived."""

_HARDLY = 0.05
"""Seconds for handing over what has just been read."""


class Wire:
    """One session, made when first needed and again when it is lost."""

    def __init__(
        self,
        hosts: list[tuple[str, int]],
        session: float,
        credentials: str | None,
        tls: ssl.SSLContext | None,
        io: IO,
        on_end: Callable[[], None],
        on_made: Callable[[str], None],
    ) -> None:
        self._make = partial(Connection, hosts, session, credentials, tls, on_end, on_made)
        self._hosts = ", ".join(f"{host}:{port}" for host, port in hosts)
        self._io = io
        self._mutex = threading.Lock()
        self._connection: Connection | None = None
        self._closed = False

    @property
    def negotiated(self) -> float:
        """Seconds after which the servers forget a session that they don't hear of; 0: not known."""
        return 0.0 if self._connection is None else self._connection.negotiated

    async def exchange(self, requests: list[Any], until: float) -> Batch:
        """Send requests in one write, and read their answers; `RequestFailed` if any of them is missing."""
        event = self._io.event()
        batch = Batch(requests, event)
        try:
            connection = self._opened()
            connection.submit(batch)
            started = self._io.now()
            answered = await event.wait(max(until - started, _LEAST))
            if not answered:
                # If we were stopped, or very busy, the answer lies there, and only the time is up.
                answered = await event.wait(_GRACE if connection.unread() else _HARDLY)
        except BaseException:
            batch.withdraw()
            raise
        if not answered and batch.failure is None:
            raise self._late(connection, batch, self._io.now() - started)
        if batch.failure is not None:
            raise self._failed(batch, batch.failure)
        return batch

    def unchanged_since(self, zxid: int, now: float) -> float:
        """From when on a node is known to have been as it is now, if this transaction was its last."""
        connection = self._connection
        return now if connection is None else connection.unchanged_since(zxid, now)

    def tell(self, request: Any) -> None:
        """Send a request of which the answer is of no interest, if there is somebody to hear it."""
        connection = self._connection
        if connection is not None and connection.connected:
            connection.submit(Batch([request], self._io.event()))

    async def close(self) -> None:
        """End the session and with it everything that is ephemeral."""
        with self._mutex:
            self._closed = True
            connection = self._connection
        if connection is not None:
            await self._io.call(connection.end)

    def _opened(self) -> Connection:
        with self._mutex:
            if self._closed:
                raise RequestFailed("the client was closed", "not applied")
            if self._connection is None or self._connection.dead is not None:
                if self._connection is not None:
                    self._connection.end()
                self._connection = self._make()
                try:
                    self._connection.open()
                except BaseException:  # a signal: nobody else would open it
                    self._connection.finish()
                    self._connection = None
                    raise
            return self._connection

    def _late(self, connection: Connection, batch: Batch, waited: float) -> RequestFailed:
        if not batch.withdraw():
            connection.doubt(_SUSPICIOUS)
            return RequestFailed(f"no answer within {waited:.3g} s", "unknown")
        why = connection.why()
        if why is None:
            return RequestFailed(
                f"no connection to {self._hosts} within {waited:.3g} s", "not applied"
            )
        return RequestFailed(f"can't connect to {self._hosts}: {_said(why)}", "not applied")

    def _failed(self, batch: Batch, failure: Exception) -> RequestFailed:
        if not batch.sent:
            return RequestFailed(f"can't connect to {self._hosts}: {_said(failure)}", "not applied")
        if isinstance(failure, SessionExpiredError):
            return RequestFailed("the session has expired", "unknown")
        return RequestFailed("the connection was lost", "unknown")


def _said(error: Exception) -> str:
    return str(getattr(error, "strerror", None) or error) or type(error).__name__
