"""Fixtures for what the SQL engines have in common: a witness in each database."""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import pytest

from tests.conformance.cells import Cell, OpenCell
from tests.engines.mysql import seeing as mysql
from tests.engines.postgresql import seeing as postgresql
from tests.engines.sql.tables import MysqlTables, PostgresqlTables, Tables
from tests.engines.sql.witness import MysqlWitness, PostgresqlWitness, Witness

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
    seeing: Any = postgresql if request.param == "postgresql" else mysql
    seeing.clean(server)
    connections, listening = partial(seeing.connections, server), partial(seeing.listening, server)
    return Database(request.param, server, connections, listening)


@pytest.fixture
def tables(database: Database) -> Tables:
    kind: Any = PostgresqlTables if database.name == "postgresql" else MysqlTables
    made: Tables = kind(database.server)
    return made


@pytest.fixture
def witness(database: Database) -> Witness:
    """Of session locks there."""
    return _witness(database.name, database.server)


@pytest.fixture(params=DATABASES)
def own_witness(request: pytest.FixtureRequest) -> Witness:
    """In a server to be stopped and started."""
    return _witness(request.param, request.getfixturevalue(f"{request.param}_server")())


def _witness(name: str, server: Any) -> Witness:
    return PostgresqlWitness(server) if name == "postgresql" else MysqlWitness(server)


@pytest.fixture
def cell(witness: Witness, open_cell: OpenCell) -> Cell:
    return open_cell(witness.url)
