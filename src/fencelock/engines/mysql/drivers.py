"""The only place that uses private names of PyMySQL and asyncmy.

The public names of both drivers offer no timeout for a single request, no results without a cursor, and no
socket to watch. `tests/engines/mysql/test_drivers.py` fails with a clear message if a driver changes them.
"""

from __future__ import annotations

from typing import Any

from asyncmy.errors import MySQLError as AsyncMySQLError
from pymysql.constants import COMMAND
from pymysql.err import MySQLError

DriverError = (MySQLError, AsyncMySQLError)
"""What the drivers raise."""

Rows = list[tuple[Any, ...]]


def code_and_message(error: BaseException) -> tuple[int, str]:
    """The MySQL error code, 0 if there is none, and the message of a driver's error."""
    code = error.args[0] if error.args and isinstance(error.args[0], int) else 0
    text = str(error.args[1]) if len(error.args) > 1 else str(error)
    return code, text


def query(conn: Any, sql: str, timeout: float | None) -> Rows:
    """Run a statement over PyMySQL. Returns the rows of all its results. No cursor: it would copy them."""
    conn._read_timeout = timeout  # PyMySQL applies it before each read
    conn.query(sql)
    rows = list(conn._result.rows or ())
    while conn._result.has_next:
        conn.next_result()
        rows += conn._result.rows or ()
    return rows


def send(conn: Any, sql: str) -> None:
    """Send a statement over PyMySQL without reading its answer."""
    conn._execute_command(COMMAND.COM_QUERY, sql)


def receive(conn: Any) -> Rows:
    """Read the answer to `send`: the rows of its first result."""
    conn._read_query_result()
    return list(conn._result.rows or ())


def blocking_socket(conn: Any) -> Any:
    """The socket of PyMySQL's connection. None after it was closed."""
    return conn._sock


def close_socket(conn: Any) -> None:
    """Close PyMySQL's connection at once, without a goodbye to the server that might block."""
    conn._force_close()


async def query_async(conn: Any, sql: str) -> Rows:
    """Run a statement over asyncmy. Returns the rows of all its results.

    No cursor: it would send another request for warnings, and log them. The end of a sleep by KILL QUERY is
    such a warning.
    """
    await conn.query(sql)
    rows = list(conn._result.rows or ())
    while conn._result.has_next:
        await conn.next_result()
        rows += conn._result.rows or ()
    return rows


def asyncio_socket(conn: Any) -> Any:
    """The socket of asyncmy's connection."""
    return conn._transport.get_extra_info("socket")


def is_broken(conn: Any) -> bool:
    """Whether asyncmy has noticed that the connection is lost."""
    return bool(conn._stream_broken)
