"""Fixtures for what only PostgreSQL does: servers, and a client of one face at a time."""

import pytest

from tests.conformance.cells import Cell, OpenCell
from tests.engines.postgresql.server_state import clean
from tests.servers_postgresql import PostgresqlFactory, PostgresqlServer


@pytest.fixture
def server(shared_postgresql: PostgresqlServer) -> PostgresqlServer:
    """A server that must not be harmed, without a trace of other tests."""
    clean(shared_postgresql)
    return shared_postgresql


@pytest.fixture
def own_server(postgresql_server: PostgresqlFactory) -> PostgresqlServer:
    """A server to be stopped, killed and reconfigured."""
    return postgresql_server()


@pytest.fixture
def cell(server: PostgresqlServer, open_cell: OpenCell) -> Cell:
    return open_cell(server.url)
