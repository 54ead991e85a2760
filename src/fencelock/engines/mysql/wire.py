"""One connection, in either world: PyMySQL's blocks the thread, asyncmy's suspends the task.

Every request has a deadline. A connection that missed it, or was left in the middle of a request, is out
of step and is closed: its answer may still come. There is no reconnecting behind anyone's back.
"""

from __future__ import annotations

import asyncio
import select
import socket
from abc import ABC, abstractmethod
from contextlib import suppress
from typing import Any

import asyncmy
import pymysql
from asyncmy.errors import MySQLError as AsyncMySQLError
from pymysql.constants import CLIENT, COMMAND
from pymysql.err import MySQLError

from fencelock.engines.mysql.troubles import IN_DOUBT, KILLED, LOST, TROUBLES
from fencelock.engines.sql.bell import Bell
from fencelock.engines.sql.broken import DatabaseFailed

DriverError = (MySQLError, AsyncMySQLError)
"""What the drivers raise."""

_FOR_EVER = 365 * 86_400.0

Rows = list[tuple[Any, ...]]


class Terse(str):
    """A request to which no answer means yes: it takes as long to read one as to carry out the rest."""

    __slots__ = ()


class Wire(ABC):
    """A connection in autocommit; procedures end their transactions themselves."""

    def __init__(self, conn: Any) -> None:
        self._conn = conn
        self.broken = False
        self.interruptible = False
        """Whether KILL QUERY is nothing special here, as for a listener: it leaves no transaction open."""

    async def call(self, request: str, timeout: float) -> list[str]:
        """Run a statement; the first column of all its results, text, bytes or number as it may be."""
        rows = await self.rows(request, timeout)
        if not rows and isinstance(request, Terse):
            return ["1"]
        return [_text(row[0]) for row in rows]

    async def rows(self, sql: str, timeout: float) -> Rows:
        """Run a statement; the rows of all its results."""
        if timeout <= 0:
            raise DatabaseFailed("no time was left to ask", "not applied")
        try:
            return await self._exchange(sql, timeout)
        except DriverError as error:
            raise self._failed(error, timeout) from error
        except (TimeoutError, OSError) as error:
            self.close()
            raise DatabaseFailed(_said(error, timeout), "unknown") from error
        except Exception as error:  # what a driver does with an answer that was damaged
            self.close()
            raise DatabaseFailed(f"the answer makes no sense: {error!r}", "unknown") from error
        except BaseException:  # interrupted between request and answer: it is out of step
            self.close()
            raise

    def _failed(self, error: Exception, timeout: float) -> DatabaseFailed:
        code, text = parts(error)
        harmless = str(code) in TROUBLES.try_again + TROUBLES.not_there
        if not harmless and not (self.interruptible and code == KILLED):
            # The procedure may have been ended before it could roll back: closing does that, too.
            self.close()
        if code in LOST:
            return DatabaseFailed(_said(error.__cause__ or text, timeout), "unknown", str(code))
        return DatabaseFailed(text, "unknown" if code in IN_DOUBT else "not applied", str(code))

    @abstractmethod
    async def _exchange(self, sql: str, timeout: float) -> Rows: ...

    async def begin(self, request: str, timeout: float) -> None:
        """Send a statement whose answer may take long, and don't wait for it."""
        try:
            await self._send(request, timeout)
        except DriverError as error:
            raise self._failed(error, timeout) from error
        except OSError as error:
            self.close()
            raise DatabaseFailed(_said(error, timeout), "unknown") from error
        except BaseException:
            self.close()
            raise

    async def answered(self, timeout: float) -> bool:
        """Whether the answer to what was begun is there, at the latest when the time is up; it must be 1."""
        try:
            rows = await self._receive(timeout)
        except Exception as error:  # an answer that was damaged makes a driver raise anything
            self.close()
            raise DatabaseFailed(parts(error)[1], "not applied") from error
        if rows is not None and rows != [(1,)]:
            self.close()
            raise DatabaseFailed("the server gave up waiting", "not applied")
        return rows is not None

    @abstractmethod
    def interrupt(self) -> None:
        """Let an `answered` that waits come back at once; from any thread."""

    @abstractmethod
    async def _send(self, sql: str, timeout: float) -> None: ...

    @abstractmethod
    async def _receive(self, timeout: float) -> Rows | None: ...

    @abstractmethod
    def is_cut(self) -> bool:
        """Whether the server has closed it while it lay idle."""

    @abstractmethod
    def hang_up(self) -> None:
        """End it from another thread or task: the one that reads from it wakes up and closes it."""

    @abstractmethod
    def close(self) -> None: ...


class BlockingWire(Wire):
    """PyMySQL's connection."""

    def __init__(self, conn: Any) -> None:
        super().__init__(conn)
        self._idle = _idle(conn._sock)
        self._bell: Bell | None = None

    @classmethod
    async def open(cls, settings: dict[str, Any], timeout: float) -> Wire:
        options: dict[str, Any]
        options = {"connect_timeout": timeout, "read_timeout": timeout, "write_timeout": timeout}
        # Otherwise it would try TLS, and read all the world's certificates for each connection.
        options["ssl_disabled"] = settings["ssl"] is None
        return cls(pymysql.connect(**{**settings, **options, **_OPTIONS}))

    async def _exchange(self, sql: str, timeout: float) -> Rows:
        # PyMySQL sets this before it reads, so that it may change from one request to the next. No cursor:
        # that would only make a copy of the rows.
        conn = self._conn
        conn._read_timeout = timeout
        conn.query(sql)
        rows: Rows = list(conn._result.rows or ())
        while conn._result.has_next:
            conn.next_result()
            rows += conn._result.rows or ()
        return rows

    async def _send(self, sql: str, timeout: float) -> None:
        self._conn._execute_command(COMMAND.COM_QUERY, sql)

    async def _receive(self, timeout: float) -> Rows | None:
        self._bell = self._bell or Bell(self._conn._sock.fileno())
        if not self._bell.wait(timeout):
            return None
        self._conn._read_query_result()
        return list(self._conn._result.rows or ())

    def interrupt(self) -> None:
        if self._bell is not None:
            self._bell.ring()

    def is_cut(self) -> bool:
        return bool(self._idle.poll(0))

    def hang_up(self) -> None:
        with suppress(OSError, AttributeError):  # AttributeError: it has no socket any more
            self._conn._sock.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        self.broken = True
        if self._bell is not None:
            self._bell.close()
        self._conn._force_close()


class AsyncioWire(Wire):
    """asyncmy's connection."""

    def __init__(self, conn: Any) -> None:
        super().__init__(conn)
        self._idle = _idle(conn._transport.get_extra_info("socket"))
        self._begun: asyncio.Task[Rows] | None = None
        self._sleeper: asyncio.Future[None] | None = None
        """Of the one to be roused."""

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
            # asyncmy waits with `asyncio.wait_for`, which before Python 3.12 loses a cancellation that comes
            # in the moment in which it is connected.
            if task.cancelling() > cancelled:
                raise asyncio.CancelledError
        except BaseException:
            conn.close()
            raise
        return cls(conn)

    async def _exchange(self, sql: str, timeout: float) -> Rows:
        # Without a cursor: that would ask for warnings, with a request of its own, and log them; and a
        # statement that was ended while it slept is one.
        conn = self._conn
        async with asyncio.timeout(timeout):
            await conn.query(sql)
            rows: Rows = list(conn._result.rows or ())
            while conn._result.has_next:
                await conn.next_result()
                rows += conn._result.rows or ()
        return rows

    async def _send(self, sql: str, timeout: float) -> None:
        self._begun = asyncio.create_task(self._exchange(sql, _FOR_EVER))

    async def _receive(self, timeout: float) -> Rows | None:
        assert self._begun is not None
        sleeper = self._sleeper = asyncio.get_running_loop().create_future()
        both: list[asyncio.Future[Any]] = [self._begun, sleeper]
        await asyncio.wait(both, timeout=max(0.0, timeout), return_when=asyncio.FIRST_COMPLETED)
        return self._begun.result() if self._begun.done() else None

    def interrupt(self) -> None:
        if self._sleeper is not None:
            with suppress(RuntimeError):  # the loop is closed
                self._sleeper.get_loop().call_soon_threadsafe(_settle, self._sleeper)

    def is_cut(self) -> bool:
        # The second one: the loop may not have come round to notice.
        return bool(self._conn._stream_broken or self._idle.poll(0))

    def hang_up(self) -> None:
        self._conn.close()

    def close(self) -> None:
        self.broken = True
        if self._begun is not None:
            self._begun.cancel()
        self._conn.close()


_OPTIONS: dict[str, Any] = {
    "autocommit": True,
    "charset": "utf8mb4",
    "client_flag": CLIENT.MULTI_STATEMENTS,
    "program_name": "fencelock",
}


def _idle(connected: Any) -> select.poll:
    """Tells whether a server has something to say that nobody has asked for: that it hangs up."""
    idle = select.poll()
    idle.register(connected.fileno(), select.POLLIN)
    return idle


def _settle(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)


def _text(value: Any) -> str:
    return value.decode(errors="replace") if isinstance(value, bytes) else str(value)


def parts(error: Exception) -> tuple[int, str]:
    """The code and the message of a driver's error."""
    code = error.args[0] if error.args and isinstance(error.args[0], int) else 0
    text = str(error.args[1]) if len(error.args) > 1 else str(error)
    return code, text


def _said(trouble: object, timeout: float) -> str:
    text = str(trouble)
    if isinstance(trouble, TimeoutError) or "timed out" in text:
        return f"no answer within {timeout:.3g} s"
    return text or "the connection was lost"
