"""Fixtures for what the SQL engines share: a server of each database, and its administrator."""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import pytest

from tests.conformance.cells import Cell, OpenCell
from tests.engines.mysql import server_state as mysql
from tests.engines.postgresql import server_state as postgresql
from tests.engines.sql.admins import Admin, MysqlAdmin, PostgresqlAdmin
from tests.engines.sql.tables import MysqlTables, PostgresqlTables, Tables

DATABASES = ("postgresql", "mysql")


class Database(NamedTuple):
    """A server that must not be harmed, without a trace of other tests."""

    name: str
    server: Any
    connections: Callable[[], int]
    listening: Callable[[], list[int]]


@pytest.fixture(params=DATABASES)
def database(request: pytest.FixtureRequest) -> Database:
    server = request.getfixturevalue(f"shared_{request.param}")
    state: Any = postgresql if request.param == "postgresql" else mysql
    state.clean(server)
    connections, listening = partial(state.connections, server), partial(state.listening, server)
    return Database(request.param, server, connections, listening)


@pytest.fixture
def tables(database: Database) -> Tables:
    kind: Any = PostgresqlTables if database.name == "postgresql" else MysqlTables
    made: Tables = kind(database.server)
    return made


@pytest.fixture
def admin(database: Database) -> Admin:
    """The administrator of that server."""
    return _admin(database.name, database.server)


@pytest.fixture(params=DATABASES)
def own_admin(request: pytest.FixtureRequest) -> Admin:
    """The administrator of a server that the test may stop and start."""
    return _admin(request.param, request.getfixturevalue(f"{request.param}_server")())


def _admin(name: str, server: Any) -> Admin:
    return PostgresqlAdmin(server) if name == "postgresql" else MysqlAdmin(server)


@pytest.fixture
def cell(admin: Admin, open_cell: OpenCell) -> Cell:
    return open_cell(admin.url)
