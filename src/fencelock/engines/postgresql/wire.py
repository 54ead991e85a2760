"""One connection, over libpq itself: every wait has a deadline, and the same code serves both clients.

psycopg's own connections have no deadline for an answer, and receive notifications only while a thread or
a task owns the connection. libpq's non-blocking calls, which `psycopg.pq` exports, need neither.
"""

from __future__ import annotations

import os
import re
import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from functools import partial

import psycopg
from psycopg import pq

from fencelock.core.errors import Outcome
from fencelock.engines.failure import RequestFailed
from fencelock.engines.postgresql.errors import NOT_PREPARED
from fencelock.engines.postgresql.requests import Request, Statement
from fencelock.engines.postgresql.sockets import SocketWait
from fencelock.engines.sql import database
from fencelock.io import clock

_USELESS_LINES = ("This probably means", "before or while processing", "Is the server running")

_USELESS_PARTS = re.compile(
    r"connection failed: |consuming input failed: |"
    r"connection to server (at|on) [^\n]*? failed: (FATAL: +)?"
)

_REST_TIMEOUT = 2.0
"""Seconds in which the rest of an answer must follow its beginning."""

_SUCCESS = (pq.ExecStatus.TUPLES_OK, pq.ExecStatus.COMMAND_OK, pq.ExecStatus.EMPTY_QUERY)


class Wire(database.Wire):
    """A connection in autocommit, which never leaves a transaction open: see `sql/database.py`."""

    def __init__(self, conn: pq.abc.PGconn, wait: SocketWait) -> None:
        super().__init__(wait.descriptor)
        self._conn = conn
        self._wait = wait
        self.prepares = False
        """Whether to prepare statements that come again. Behind a pooler that is impossible."""
        self._prepared: dict[bytes, bool] = {}
        """The statements that were sent: False after the first time, True once prepared."""
        self._closing = threading.Lock()

    @classmethod
    async def open(cls, conninfo: str, kind: type[SocketWait], deadline: float) -> Wire:
        """Connect, or raise `RequestFailed`."""
        conn = pq.PGconn.connect_start(conninfo.encode())
        try:
            wait: SocketWait | None = None
            status: int = pq.PollingStatus.WRITING
            while status != pq.PollingStatus.OK:
                if conn.status == pq.ConnStatus.BAD or status == pq.PollingStatus.FAILED:
                    raise RequestFailed(_shortened(conn.get_error_message()), "not applied")
                # libpq may try again with another socket, with TLS or without.
                if wait is None or wait.descriptor != conn.socket:
                    wait = kind(conn.socket)
                reading = status == pq.PollingStatus.READING
                ready = wait.readable if reading else wait.writable
                if not await ready(deadline - clock.now()):
                    raise RequestFailed("no answer", "not applied")
                status = conn.connect_poll()
            conn.nonblocking = 1
            return cls(conn, kind(conn.socket))
        except psycopg.Error as error:
            conn.finish()
            raise RequestFailed(_shortened(str(error)), "not applied") from error
        except BaseException:
            conn.finish()
            raise

    @property
    def encrypted(self) -> bool:
        """Whether TLS protects the connection, as far as its other end: a pooler may end it there."""
        return bool(self._conn.ssl_in_use)

    async def call(self, request: Request, timeout: float) -> list[str]:
        """Run a statement as a transaction of its own. Returns the first column of its rows."""
        if timeout <= 0:
            raise RequestFailed("no time was left to ask", "not applied")
        statement, values = request
        encoded = [value.encode() for value in values]
        if self._prepared.get(statement.name):
            send = partial(self._conn.send_query_prepared, statement.name, encoded)
        else:
            send = partial(self._conn.send_query_params, statement.sql, encoded)
            if self.prepares:
                timeout = await self._prepare(statement, timeout)
        try:
            results = await self._exchange(send, timeout)
        except RequestFailed as error:
            if error.code == NOT_PREPARED:
                self._prepared.clear()  # somebody has reset the session: prepare again
            raise
        result = results[-1]
        return [_text(result.get_value(row, 0)) or "" for row in range(result.ntuples)]

    async def _prepare(self, statement: Statement, timeout: float) -> float:
        """Prepare a statement that comes for the second time. Returns the time that is left."""
        again = statement.name in self._prepared
        if again:
            started = clock.now()
            prepare = partial(self._conn.send_prepare, statement.name, statement.sql)
            await self._exchange(prepare, timeout)
            timeout -= clock.now() - started
        self._prepared[statement.name] = again
        return timeout

    async def script(self, text: str, timeout: float) -> list[list[str | None]]:
        """Run statements in one transaction. Returns the first row of each."""
        results = await self._exchange(partial(self._conn.send_query, text.encode()), timeout)
        return [
            [_text(result.get_value(0, column)) for column in range(result.nfields)]
            for result in results
            if result.ntuples
        ]

    async def begin(self, request: Request, timeout: float) -> None:
        statement, values = request
        encoded = [value.encode() for value in values]
        try:
            self._conn.send_query_params(statement.sql, encoded)
            await self._flush(clock.now() + timeout)
        except BaseException as error:
            self._fail(error, "unknown", f"could not send a request within {timeout:.3g} s")
            raise

    async def answered(self, timeout: float) -> bool:
        deadline = clock.now() + timeout
        try:
            while self._conn.is_busy():
                if not await self._wait.readable_or_interrupted(deadline - clock.now()):
                    return False
                self._conn.consume_input()
            await self._answers(clock.now() + _REST_TIMEOUT)
            return True
        except BaseException as error:
            self._fail(error, "not applied", "only a part of an answer came")
            raise

    def interrupt(self) -> None:
        self._wait.interrupt()

    async def notifications(self, timeout: float) -> list[str]:
        """Wait for notifications. Returns their payloads, none if `timeout` seconds have passed."""
        try:
            if not await self._wait.readable(timeout):
                return []
            self._conn.consume_input()
            payloads = []
            while (notify := self._conn.notifies()) is not None:
                payloads.append(notify.extra.decode(errors="replace"))
            # libpq finds damaged input only when it parses it, and closes the socket then.
            if self._conn.status == pq.ConnStatus.BAD:
                raise RequestFailed(_shortened(self._conn.get_error_message()), "not applied")
            return payloads
        except BaseException as error:
            self._fail(error, "not applied")
            raise

    def hang_up(self) -> None:
        with self._closing, suppress(OSError):
            if not self.broken:  # else the descriptor may belong to another connection by now
                with socket.socket(fileno=os.dup(self._wait.descriptor)) as same:
                    same.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        with self._closing:
            self.broken = True
            self._wait.close()
            self._conn.finish()

    def _fail(self, error: BaseException, outcome: Outcome, timed_out: str = "no answer") -> None:
        """Close the connection, and raise `RequestFailed` if libpq or the socket failed.

        After an error that the server itself reports, the connection can be used again. If the caller was
        cancelled between request and answer, it can't: the next request would read the late answer.
        """
        if isinstance(error, RequestFailed):
            return
        self.close()
        if isinstance(error, TimeoutError):
            raise RequestFailed(timed_out, outcome) from error
        if isinstance(error, psycopg.Error | OSError):
            raise RequestFailed(_shortened(str(error)), outcome) from error

    async def _exchange(self, send: Callable[[], None], timeout: float) -> list[pq.abc.PGresult]:
        deadline = clock.now() + timeout
        try:
            send()
            return await self._answers(deadline)
        except BaseException as error:
            self._fail(error, "unknown", f"no answer within {timeout:.3g} s")
            raise

    async def _flush(self, deadline: float) -> None:
        while self._conn.flush():
            if not await self._wait.writable(deadline - clock.now()):
                raise TimeoutError

    async def _answers(self, deadline: float) -> list[pq.abc.PGresult]:
        conn, wait = self._conn, self._wait
        if conn.flush():
            await self._flush(deadline)
        results: list[pq.abc.PGresult] = []
        failure: RequestFailed | None = None
        while True:
            while conn.is_busy():
                if not await wait.readable(deadline - clock.now()):
                    raise TimeoutError
                conn.consume_input()
            result = conn.get_result()
            if result is None:
                break
            if result.status not in _SUCCESS:
                failure = failure or _failure_of(result)
            results.append(result)
        if failure is not None:
            if failure.outcome == "unknown":
                self.close()
            raise failure
        return results


def _failure_of(result: pq.abc.PGresult) -> RequestFailed:
    code = _text(result.error_field(pq.DiagnosticField.SQLSTATE)) or ""
    message = _text(result.error_field(pq.DiagnosticField.MESSAGE_PRIMARY))
    severity = _text(result.error_field(pq.DiagnosticField.SEVERITY_NONLOCALIZED))
    # After an ERROR the transaction was rolled back. A FATAL one, which ends the connection, may have come
    # after the commit. An error without a code is libpq's own: it lost the connection.
    rolled_back = severity == "ERROR" and code != ""
    text = message or _shortened(result.get_error_message())
    return RequestFailed(text, "not applied" if rolled_back else "unknown", code)


def _text(value: bytes | None) -> str | None:
    return None if value is None else value.decode(errors="replace")


def _shortened(message: str) -> str:
    """libpq's message in one line, without the parts that tell the reader nothing."""
    text = _USELESS_PARTS.sub("", message)
    lines = [line.strip() for line in text.splitlines()]
    useful = dict.fromkeys(line for line in lines if line and not line.startswith(_USELESS_LINES))
    return "; ".join(useful) or "the connection failed"
