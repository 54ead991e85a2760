"""One connection, for both clients: PyMySQL's blocks the thread, asyncmy's suspends the task.

Every request has a deadline. After a missed deadline or a cancelled request the connection is closed, because
the answer may still come and would confuse the next request. No connection is ever reopened silently.
"""

from __future__ import annotations

import asyncio
import socket
from abc import abstractmethod
from contextlib import suppress
from typing import Any

import asyncmy
import pymysql
from pymysql.constants import CLIENT

from fencelock.core.errors import Outcome
from fencelock.engines.failure import RequestFailed
from fencelock.engines.mysql import drivers
from fencelock.engines.mysql.drivers import DriverError, Rows
from fencelock.engines.mysql.errors import ENDED, ERRORS, KILLED, LOST
from fencelock.engines.sql import database
from fencelock.engines.sql.interruptible import InterruptibleWait, interrupt

_OPTIONS: dict[str, Any] = {
    "autocommit": True,
    "charset": "utf8mb4",
    "client_flag": CLIENT.MULTI_STATEMENTS,
    "program_name": "fencelock",
}


class EmptyMeansYes(str):
    """A request whose empty answer means yes. To send a row takes as long as the rest of a release."""

    __slots__ = ()


class Wire(database.Wire):
    """A connection in autocommit: see `sql/database.py`. Procedures end their transactions themselves."""

    def __init__(self, conn: Any, descriptor: int) -> None:
        super().__init__(descriptor)
        self._conn = conn
        self.interruptible = False
        """Whether KILL QUERY is expected here, as for a listener. It leaves no transaction open."""

    async def call(self, request: str, timeout: float) -> list[str]:
        """Run a statement. Returns the first column of all its results, as text."""
        rows = await self.rows(request, timeout)
        if not rows and isinstance(request, EmptyMeansYes):
            return ["1"]
        return [_text(row[0]) for row in rows]

    async def rows(self, sql: str, timeout: float) -> Rows:
        """Run a statement. Returns the rows of all its results."""
        if timeout <= 0:
            raise RequestFailed("no time was left to ask", "not applied")
        try:
            return await self._exchange(sql, timeout)
        except BaseException as error:
            self._fail(error, timeout)
            raise

    async def begin(self, request: str, timeout: float) -> None:
        try:
            await self._send(request)
        except BaseException as error:
            self._fail(error, timeout)
            raise

    async def answered(self, timeout: float) -> bool:
        try:
            rows = await self._receive(timeout)
        except Exception as error:  # a driver may raise anything if an answer was damaged
            self.close()
            raise RequestFailed(drivers.code_and_message(error)[1], "not applied") from error
        if rows is not None and rows != [(1,)]:
            self.close()
            raise RequestFailed("the server gave up waiting", "not applied")
        return rows is not None

    def _fail(self, error: BaseException, timeout: float) -> None:
        """Close the connection unless it can be used again, and raise `RequestFailed` for an error."""
        code, text = drivers.code_and_message(error)
        if not isinstance(error, DriverError):
            self.close()
            if isinstance(error, OSError):  # a TimeoutError among them
                raise RequestFailed(_message(error, timeout), "unknown") from error
            if isinstance(error, Exception):  # a driver may raise anything if an answer was damaged
                text = f"the answer makes no sense: {error!r}"
                raise RequestFailed(text, "unknown") from error
            return  # cancelled between request and answer
        harmless = str(code) in ERRORS.retriable + ERRORS.missing
        if not harmless and not (self.interruptible and code == KILLED):
            # The procedure may have ended before it could roll back: to close the connection does that.
            self.close()
        outcome: Outcome = "unknown" if code in ENDED + LOST else "not applied"
        if code in LOST:
            text = _message(error.__cause__ or text, timeout)
        raise RequestFailed(text, outcome, str(code)) from error

    @abstractmethod
    async def _exchange(self, sql: str, timeout: float | None) -> Rows: ...

    @abstractmethod
    async def _send(self, sql: str) -> None: ...

    @abstractmethod
    async def _receive(self, timeout: float) -> Rows | None: ...


class BlockingWire(Wire):
    """A connection of PyMySQL."""

    def __init__(self, conn: Any) -> None:
        descriptor = drivers.blocking_socket(conn).fileno()
        super().__init__(conn, descriptor)
        self._long_wait = InterruptibleWait(descriptor)

    @classmethod
    async def open(cls, settings: dict[str, Any], timeout: float) -> Wire:
        options: dict[str, Any]
        options = {"connect_timeout": timeout, "read_timeout": timeout, "write_timeout": timeout}
        # Otherwise PyMySQL would try TLS, and load all root certificates for each connection.
        options["ssl_disabled"] = settings["ssl"] is None
        return cls(pymysql.connect(**{**settings, **options, **_OPTIONS}))

    async def _exchange(self, sql: str, timeout: float | None) -> Rows:
        return drivers.query(self._conn, sql, timeout)

    async def _send(self, sql: str) -> None:
        drivers.send(self._conn, sql)

    async def _receive(self, timeout: float) -> Rows | None:
        return drivers.receive(self._conn) if self._long_wait.wait(timeout) else None

    def interrupt(self) -> None:
        self._long_wait.interrupt()

    def hang_up(self) -> None:
        with suppress(OSError, AttributeError):  # AttributeError: None, as it is closed
            drivers.blocking_socket(self._conn).shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        self.broken = True
        self._long_wait.close()
        drivers.close_socket(self._conn)


class AsyncioWire(Wire):
    """A connection of asyncmy."""

    def __init__(self, conn: Any) -> None:
        super().__init__(conn, drivers.asyncio_socket(conn).fileno())
        self._begun: asyncio.Task[Rows] | None = None
        self._interruptible: asyncio.Future[bool] | None = None

    @classmethod
    async def open(cls, settings: dict[str, Any], timeout: float) -> Wire:
        options = {**settings, "connect_timeout": timeout, **_OPTIONS}
        conn = asyncmy.Connection(**options)  # type: ignore[no-untyped-call]
        task = asyncio.current_task()
        assert task is not None
        cancelled = task.cancelling()
        try:
            async with asyncio.timeout(timeout):
                await conn.connect()
            # asyncmy uses `asyncio.wait_for`. Before Python 3.12 that loses a cancellation which comes at
            # the moment when the connection is made.
            if task.cancelling() > cancelled:
                raise asyncio.CancelledError
        except BaseException:
            conn.close()
            raise
        return cls(conn)

    async def _exchange(self, sql: str, timeout: float | None) -> Rows:
        async with asyncio.timeout(timeout):
            return await drivers.query_async(self._conn, sql)

    async def _send(self, sql: str) -> None:
        self._begun = asyncio.create_task(self._exchange(sql, None))

    async def _receive(self, timeout: float) -> Rows | None:
        assert self._begun is not None
        interruptible = self._interruptible = asyncio.get_running_loop().create_future()
        both: list[asyncio.Future[Any]] = [self._begun, interruptible]
        await asyncio.wait(both, timeout=max(0.0, timeout), return_when=asyncio.FIRST_COMPLETED)
        return self._begun.result() if self._begun.done() else None

    def interrupt(self) -> None:
        interrupt(self._interruptible)

    def is_cut(self) -> bool:
        # The event loop may not have noticed yet: so ask the socket, too.
        return drivers.is_broken(self._conn) or super().is_cut()

    def hang_up(self) -> None:
        self._conn.close()

    def close(self) -> None:
        self.broken = True
        if self._begun is not None:
            self._begun.cancel()
        self._conn.close()


def _text(value: Any) -> str:
    return value.decode(errors="replace") if isinstance(value, bytes) else str(value)


def _message(cause: object, timeout: float) -> str:
    text = str(cause)
    if isinstance(cause, TimeoutError) or "timed out" in text:
        return f"no answer within {timeout:.3g} s"
    return text or "the connection was lost"
