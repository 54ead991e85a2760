"""The private names of the drivers that `engines/mysql/drivers.py` uses: they exist, and do what it says."""

import asyncio
import inspect
import re
import socket
from importlib.resources import files
from typing import Any

import asyncmy
import pymysql
import pytest
from pymysql.constants import CLIENT

from fencelock.core.url import Url
from fencelock.engines.mysql import drivers
from fencelock.engines.mysql.urls import target_of
from tests.servers_mysql import MysqlServer
from tests.waiting import soon

PYMYSQL_NAMES = (
    "_sock",
    "_read_timeout",
    "_result",
    "_execute_command",
    "_read_query_result",
    "_force_close",
)
ASYNCMY_NAMES = ("_transport", "_stream_broken", "_result")


def test_no_other_file_uses_private_names() -> None:
    private = re.compile(r"conn\.(_\w+)")
    used = set(private.findall(inspect.getsource(drivers)))
    assert used == {*PYMYSQL_NAMES, *ASYNCMY_NAMES}, "name each of them above"
    for file in files("fencelock.engines.mysql").iterdir():
        if file.name.endswith(".py") and file.name != "drivers.py":
            assert not private.findall(file.read_text("utf-8")), f"{file.name}: use drivers.py"


def missing(conn: Any, names: tuple[str, ...]) -> list[str]:
    return [name for name in names if not hasattr(conn, name)]


def complaint(driver: Any, names: list[str]) -> str:
    version = getattr(driver, "__version__", "?")
    return (
        f"{driver.__name__} {version} has no Connection.{', .'.join(names)} any more: "
        "change fencelock/engines/mysql/drivers.py"
    )


@pytest.fixture
def settings(server: MysqlServer) -> dict[str, Any]:
    return target_of(Url.parse(server.url)).settings


async def test_pymysql(settings: dict[str, Any]) -> None:
    conn = pymysql.connect(**settings, client_flag=CLIENT.MULTI_STATEMENTS)
    try:
        gone = missing(conn, PYMYSQL_NAMES)
        assert not gone, complaint(pymysql, gone)
        assert isinstance(drivers.blocking_socket(conn), socket.socket)
        assert drivers.query(conn, "SELECT 1; SELECT 2", 5) == [(1,), (2,)]
        drivers.send(conn, "SELECT 3")
        assert drivers.receive(conn) == [(3,)]
        with pytest.raises(drivers.DriverError, match="timed out"):
            drivers.query(conn, "SELECT SLEEP(60)", 0.05)
    finally:
        drivers.close_socket(conn)
    assert drivers.blocking_socket(conn) is None, "the timeout and the close have closed it"


async def test_asyncmy(settings: dict[str, Any]) -> None:
    options = {**settings, "client_flag": CLIENT.MULTI_STATEMENTS}
    conn = asyncmy.Connection(**options)  # type: ignore[no-untyped-call]
    await conn.connect()
    try:
        gone = missing(conn, ASYNCMY_NAMES)
        assert not gone, complaint(asyncmy, gone)
        rows = await asyncio.wait_for(drivers.query_async(conn, "SELECT 1; SELECT 2"), 5)
        assert rows == [(1,), (2,)]
        assert drivers.asyncio_socket(conn).fileno() >= 0
        assert not drivers.is_broken(conn)
        drivers.asyncio_socket(conn).shutdown(socket.SHUT_RDWR)
        await soon(lambda: drivers.is_broken(conn), "asyncmy to notice that it is cut")
    finally:
        conn.close()
