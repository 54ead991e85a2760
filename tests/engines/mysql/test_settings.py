"""Unusual settings of a server: they change nothing."""

import asyncio
from collections.abc import Iterator

import pytest

from tests.conformance.cells import Cell, OpenCell, queued
from tests.engines.mysql.server_state import transactions
from tests.servers_mysql import MysqlFactory, MysqlServer
from tests.waiting import soon, within

SETTINGS = {
    "autocommit": "0",
    "sql_mode": "ANSI_QUOTES,NO_BACKSLASH_ESCAPES,PIPES_AS_CONCAT,PAD_CHAR_TO_FULL_LENGTH",
    "tx_isolation": "SERIALIZABLE",
    "tx_read_only": "1",
    "time_zone": "+05:45",
    "completion_type": "RELEASE",
    "sql_safe_updates": "1",
    "max_statement_time": "0.3",
    "lock_wait_timeout": "1",
    "innodb_lock_wait_timeout": "1",
    "character_set_server": "latin1",
    "collation_connection": "utf8mb4_general_ci",
    "group_concat_max_len": "4",
    "wait_timeout": "2",
}
"""Each as bad as it can be."""


@pytest.fixture
def odd_server(mysql_server: MysqlFactory) -> Iterator[MysqlServer]:
    server = mysql_server()
    with server.connect() as connection, connection.cursor() as cursor:
        for name, value in SETTINGS.items():
            number = value.replace(".", "").isdigit()
            cursor.execute(f"SET GLOBAL {name} = {value if number else repr(value)}")
    yield server
    with server.connect() as connection, connection.cursor() as cursor:
        cursor.execute("SET GLOBAL tx_read_only = 0, completion_type = 0")


@pytest.mark.parametrize("scheme", ["mysql", "mysql+getlock"])
async def test_a_holder_and_a_waiter_are_not_affected(
    odd_server: MysqlServer, open_cell: OpenCell, scheme: str
) -> None:
    cell: Cell = open_cell(odd_server.url.replace("mysql://", f"{scheme}://"))
    cell.name += ":Grüße \\ ' \" 錠"
    client = cell.client()
    lease = await cell.run(client.lock(cell.name).acquire)
    waiter = cell.actor().start(client.lock(cell.name).acquire)
    await queued(cell, client, 1)
    await asyncio.sleep(2.5)  # more than each of the timeouts
    assert await cell.run(client.names) == [cell.name]
    lease.check()
    await cell.run(lease.renew)
    await cell.run(lease.release)
    heir = await within(waiter)
    assert heir.fence > lease.fence
    assert not heir.abandoned
    assert (await cell.run(lambda: client.inspect(cell.name))).holders[0].fence == heir.fence
    await cell.run(heir.release)
    await soon(lambda: not transactions(odd_server), "nothing to be left open")
