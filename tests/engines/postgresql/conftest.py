"""Fixtures for what only PostgreSQL does: one face at a time, on any URL, and what the server sees."""

import pytest

from tests.conformance.cells import Cell, OpenCell
from tests.engines.postgresql.seeing import connections
from tests.servers_postgresql import PostgresqlFactory, PostgresqlServer
from tests.waiting import eventually


@pytest.fixture
def server(shared_postgresql: PostgresqlServer) -> PostgresqlServer:
    """A server that must not be harmed, without a trace of other tests."""
    eventually(lambda: connections(shared_postgresql) == 0, "other tests to hang up")
    shared_postgresql.execute("DROP SCHEMA IF EXISTS holdfast CASCADE")
    return shared_postgresql


@pytest.fixture
def own_server(postgresql_server: PostgresqlFactory) -> PostgresqlServer:
    """A server to be stopped, killed and reconfigured."""
    return postgresql_server()


@pytest.fixture
def cell(server: PostgresqlServer, open_cell: OpenCell) -> Cell:
    return open_cell(server.url)
