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


def rows_of(conn: Any) -> Rows:
    """The rows of the result that was read last. For both drivers."""
    return list(conn._result.rows or ())


def has_more(conn: Any) -> bool:
    """Whether another result of the same request follows. For both drivers."""
    return bool(conn._result.has_next)


def code_and_message(error: Exception) -> tuple[int, str]:
    """The MySQL error code, 0 if there is none, and the message of a driver's error."""
    code = error.args[0] if error.args and isinstance(error.args[0], int) else 0
    text = str(error.args[1]) if len(error.args) > 1 else str(error)
    return code, text


def blocking_socket(conn: Any) -> Any:
    """The socket of PyMySQL's connection. None after it was closed."""
    return conn._sock


def set_read_timeout(conn: Any, seconds: float | None) -> None:
    """Set the timeout of PyMySQL's next read. It is applied before each read."""
    conn._read_timeout = seconds


def send_query(conn: Any, sql: str) -> None:
    """Send a statement over PyMySQL without reading its answer."""
    conn._execute_command(COMMAND.COM_QUERY, sql)


def read_result(conn: Any) -> None:
    """Read the answer to `send_query`."""
    conn._read_query_result()


def close_socket(conn: Any) -> None:
    """Close PyMySQL's connection at once, without a goodbye to the server that might block."""
    conn._force_close()


def asyncio_socket(conn: Any) -> Any:
    """The socket of asyncmy's connection."""
    return conn._transport.get_extra_info("socket")


def is_broken(conn: Any) -> bool:
    """Whether asyncmy has noticed that the connection is lost."""
    return bool(conn._stream_broken)
