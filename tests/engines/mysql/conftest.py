"""Fixtures for what only MySQL does: servers, and a client of one face at a time."""

import pytest

from tests.conformance.cells import Cell, OpenCell
from tests.engines.mysql.server_state import clean, connections
from tests.servers_mysql import DATABASE, MysqlFactory, MysqlServer
from tests.waiting import eventually


@pytest.fixture
def server(shared_mysql: MysqlServer) -> MysqlServer:
    """A server that must not be harmed, without a trace of other tests."""
    clean(shared_mysql)
    return shared_mysql


@pytest.fixture
def bare_server(shared_mysql: MysqlServer) -> MysqlServer:
    """The same, without any tables or procedures."""
    eventually(lambda: connections(shared_mysql) == 0, "other tests to hang up")
    shared_mysql.execute(f"DROP DATABASE {DATABASE}")
    with shared_mysql.connect(database=None) as connection:
        connection.cursor().execute(f"CREATE DATABASE {DATABASE}")
    return shared_mysql


@pytest.fixture
def own_server(mysql_server: MysqlFactory) -> MysqlServer:
    """A server to be stopped, killed and reconfigured."""
    return mysql_server()


@pytest.fixture
def cell(server: MysqlServer, open_cell: OpenCell) -> Cell:
    return open_cell(server.url)
