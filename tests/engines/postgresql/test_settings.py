"""Unusual settings of a server, a database or a user: they change nothing."""

import asyncio

import pytest

from tests.conformance.cells import Cell, OpenCell, queued
from tests.engines.postgresql.test_errors import SECRET, add_role
from tests.servers_postgresql import PostgresqlServer
from tests.waiting import soon, within

SETTINGS = {
    "default_transaction_isolation": "serializable",
    "statement_timeout": "200",
    "lock_timeout": "100",
    "idle_session_timeout": "300",
    "idle_in_transaction_session_timeout": "1",
    "transaction_timeout": "300",
    "client_encoding": "latin1",
    "standard_conforming_strings": "off",
    "escape_string_warning": "on",
    "DateStyle": "German",
    "TimeZone": "Asia/Kathmandu",
    "search_path": "nowhere",
    "synchronous_commit": "off",
    "plpgsql.variable_conflict": "use_column",
}
"""Each as bad as it can be."""


@pytest.fixture(params=["postgresql", "postgresql+advisory"])
def cell(server: PostgresqlServer, open_cell: OpenCell, request: pytest.FixtureRequest) -> Cell:
    add_role(server, "odd")
    server.execute("GRANT CREATE ON DATABASE postgres TO odd")
    known = {name for (name,) in server.execute("SELECT lower(name) FROM pg_settings")}
    for name, value in SETTINGS.items():
        if name.lower() in known:
            server.execute(f"ALTER ROLE odd SET {name} = '{value}'")
    url = server.url_of("odd", SECRET)
    return open_cell(url.replace("postgresql://", f"{request.param}://"))


async def test_a_holder_and_a_waiter_are_not_affected(cell: Cell, server: PostgresqlServer) -> None:
    cell.name += ":Grüße \\ ' \" 錠"
    client = cell.client()
    lease = await cell.run(client.lock(cell.name).acquire)
    waiter = cell.actor().start(client.lock(cell.name).acquire)
    await queued(cell, client, 1)
    sessions = backends(server)
    assert sessions
    await asyncio.sleep(1)  # more than each of the timeouts
    assert sessions <= backends(server), "none was ended"
    assert await cell.run(client.names) == [cell.name]
    lease.check()
    await cell.run(lease.renew)
    await cell.run(lease.release)
    heir = await within(waiter)
    assert heir.fence > lease.fence
    assert not heir.abandoned
    await cell.run(heir.release)
    await soon(lambda: backends(server, "state <> 'idle'") == set(), "nothing to be left running")


def backends(server: PostgresqlServer, which: str = "true") -> set[int]:
    seen = f"SELECT pid FROM pg_stat_activity WHERE usename = 'odd' AND {which}"
    return {pid for (pid,) in server.execute(seen)}
