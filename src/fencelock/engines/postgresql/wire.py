"""One connection, over libpq itself: every wait has a deadline, and one code serves both faces.

psycopg's own connections have no deadline for an answer, and a notification that arrives while nobody
asks for anything needs a thread or a task that listens. libpq's non-blocking calls have both.
"""

from __future__ import annotations

import os
import re
import select
import socket
from collections.abc import Callable
from contextlib import suppress
from functools import partial

import psycopg
from psycopg import pq

from fencelock.engines.postgresql.calls import Call, Statement
from fencelock.engines.postgresql.readiness import Readiness
from fencelock.engines.postgresql.troubles import UNPREPARED
from fencelock.engines.sql.broken import DatabaseFailed
from fencelock.io import clock

_CHATTER = ("This probably means", "before or while processing", "Is the server running")

_KNOWN = re.compile(
    r"connection failed: |consuming input failed: |"
    r"connection to server (at|on) [^\n]*? failed: (FATAL: +)?"
)

_REST = 2.0
"""Seconds in which the rest of an answer must follow its beginning."""

_GOOD = (pq.ExecStatus.TUPLES_OK, pq.ExecStatus.COMMAND_OK, pq.ExecStatus.EMPTY_QUERY)


class Wire:
    """A connection in autocommit: it never leaves a transaction open."""

    def __init__(self, conn: pq.abc.PGconn, readiness: Readiness) -> None:
        self._conn = conn
        self._readiness = readiness
        self.prepares = False
        """Whether statements are prepared when they come again; behind a pooler they can't be."""
        self._prepared: dict[bytes, bool] = {}
        self.broken = False
        self._idle = select.poll()
        self._idle.register(readiness.descriptor, select.POLLIN)

    @classmethod
    async def open(cls, conninfo: str, kind: type[Readiness], deadline: float) -> Wire:
        """Connect, or raise `DatabaseFailed`."""
        conn = pq.PGconn.connect_start(conninfo.encode())
        try:
            readiness: Readiness | None = None
            status: int = pq.PollingStatus.WRITING
            while status != pq.PollingStatus.OK:
                if conn.status == pq.ConnStatus.BAD or status == pq.PollingStatus.FAILED:
                    raise DatabaseFailed(_tidy(conn.get_error_message()), "not applied")
                # libpq may try again with another socket, with TLS or without.
                if readiness is None or readiness.descriptor != conn.socket:
                    readiness = kind(conn.socket)
                reading = status == pq.PollingStatus.READING
                wait = readiness.readable if reading else readiness.writable
                if not await wait(deadline - clock.now()):
                    raise DatabaseFailed("no answer", "not applied")
                status = conn.connect_poll()
            conn.nonblocking = 1
            assert readiness is not None
            return cls(conn, kind(conn.socket))
        except psycopg.Error as error:
            conn.finish()
            raise DatabaseFailed(_tidy(str(error)), "not applied") from error
        except BaseException:
            conn.finish()
            raise

    async def call(self, request: Call, timeout: float) -> list[str]:
        """Run a statement as a transaction of its own; the first column of its rows."""
        if timeout <= 0:
            raise DatabaseFailed("no time was left to ask", "not applied")
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
        except DatabaseFailed as error:
            if error.code == UNPREPARED:
                self._prepared.clear()  # somebody has reset the session: the next try prepares anew
            raise
        result = results[-1]
        return [_text(result.get_value(row, 0)) or "" for row in range(result.ntuples)]

    async def _prepare(self, statement: Statement, timeout: float) -> float:
        """Prepare a statement that comes for the second time: the third is faster."""
        again = statement.name in self._prepared
        if again:
            started = clock.now()
            prepare = partial(self._conn.send_prepare, statement.name, statement.sql)
            await self._exchange(prepare, timeout)
            timeout -= clock.now() - started
        self._prepared[statement.name] = again
        return timeout

    async def script(self, text: str, timeout: float) -> list[list[str | None]]:
        """Run statements in one transaction; the columns of the first row of each."""
        results = await self._exchange(partial(self._conn.send_query, text.encode()), timeout)
        return [
            [_text(result.get_value(0, column)) for column in range(result.nfields)]
            for result in results
            if result.ntuples
        ]

    async def begin(self, request: Call, timeout: float) -> None:
        """Send a statement whose answer may take long, and don't wait for it."""
        deadline = clock.now() + timeout
        statement, values = request
        encoded = [value.encode() for value in values]
        try:
            self._conn.send_query_params(statement.sql, encoded)
            await self._flush(deadline)
        except (psycopg.Error, OSError) as error:  # a TimeoutError among them
            self.close()
            raise DatabaseFailed(_tidy(str(error)), "unknown") from error
        except BaseException:
            self.close()
            raise

    async def answered(self, timeout: float) -> bool:
        """Whether the answer to what was begun is there, at the latest when the time is up."""
        deadline = clock.now() + timeout
        try:
            while self._conn.is_busy():
                if not await self._readiness.roused(deadline - clock.now()):
                    return False
                self._conn.consume_input()
            await self._answers(clock.now() + _REST)
            return True
        except TimeoutError as error:
            raise DatabaseFailed("only a part of an answer came", "not applied") from error
        except (psycopg.Error, OSError) as error:
            raise DatabaseFailed(_tidy(str(error)), "not applied") from error

    def interrupt(self) -> None:
        self._readiness.interrupt()

    async def notifications(self, timeout: float) -> list[str]:
        """Wait for notifications; their payloads, none if the time is up."""
        try:
            if not await self._readiness.readable(timeout):
                return []
            self._conn.consume_input()
            payloads = []
            while (notify := self._conn.notifies()) is not None:
                payloads.append(notify.extra.decode(errors="replace"))
            # Only now: what makes no sense is found when it is parsed, and libpq closes the socket then.
            if self._conn.status == pq.ConnStatus.BAD:
                raise DatabaseFailed(_tidy(self._conn.get_error_message()), "not applied")
            return payloads
        except (psycopg.Error, OSError) as error:
            raise DatabaseFailed(_tidy(str(error)), "not applied") from error

    def is_cut(self) -> bool:
        """Whether the server has closed it while it lay idle: it has nothing else to say then."""
        return bool(self._idle.poll(0))

    def hang_up(self) -> None:
        """End it from another thread: the one that reads from it wakes up and closes it."""
        with suppress(OSError), socket.socket(fileno=os.dup(self._readiness.descriptor)) as same:
            same.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        self.broken = True
        self._readiness.close()
        self._conn.finish()

    async def _exchange(self, send: Callable[[], None], timeout: float) -> list[pq.abc.PGresult]:
        deadline = clock.now() + timeout
        try:
            send()
            return await self._answers(deadline)
        except TimeoutError as error:
            self.close()
            raise DatabaseFailed(f"no answer within {timeout:.3g} s", "unknown") from error
        except (psycopg.Error, OSError) as error:
            self.close()
            raise DatabaseFailed(_tidy(str(error)), "unknown") from error
        except DatabaseFailed:
            raise
        except BaseException:  # interrupted between request and answer: it is out of step
            self.close()
            raise

    async def _flush(self, deadline: float) -> None:
        while self._conn.flush():
            if not await self._readiness.writable(deadline - clock.now()):
                raise TimeoutError

    async def _answers(self, deadline: float) -> list[pq.abc.PGresult]:
        conn, readiness = self._conn, self._readiness
        if conn.flush():
            await self._flush(deadline)
        results: list[pq.abc.PGresult] = []
        trouble: DatabaseFailed | None = None
        while True:
            while conn.is_busy():
                if not await readiness.readable(deadline - clock.now()):
                    raise TimeoutError
                conn.consume_input()
            result = conn.get_result()
            if result is None:
                break
            if result.status not in _GOOD:
                trouble = trouble or _trouble(result)
            results.append(result)
        if trouble is not None:
            if trouble.outcome == "unknown":
                self.close()
            raise trouble
        return results


def _trouble(result: pq.abc.PGresult) -> DatabaseFailed:
    code = _text(result.error_field(pq.DiagnosticField.SQLSTATE)) or ""
    said = _text(result.error_field(pq.DiagnosticField.MESSAGE_PRIMARY))
    severity = _text(result.error_field(pq.DiagnosticField.SEVERITY_NONLOCALIZED))
    # After an error the transaction was rolled back. One that ended the connection may have come after
    # the commit; without a code it is libpq's own, who lost it.
    rolled_back = severity == "ERROR" and code != ""
    text = said or _tidy(result.get_error_message())
    return DatabaseFailed(text, "not applied" if rolled_back else "unknown", code)


def _text(value: bytes | None) -> str | None:
    return None if value is None else value.decode(errors="replace")


def _tidy(message: str) -> str:
    """libpq's messages have several lines, and not all that they say is news to the reader."""
    text = _KNOWN.sub("", message)
    lines = [line.strip() for line in text.splitlines()]
    telling = dict.fromkeys(line for line in lines if line and not line.startswith(_CHATTER))
    return "; ".join(telling) or "the connection failed"
