"""When sqlite3 and SQLAlchemy begin a transaction by themselves, and when not."""

from __future__ import annotations

import sqlite3
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import create_engine, event, text

from fencelock import StaleFence, Unsupported
from fencelock.guards import SqlGuard
from tests.guards.lease_likes import FIRST

GUARD = SqlGuard()


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "accounts.db"
    with closing(sqlite3.connect(path)) as connection:
        GUARD.create(connection)
        connection.execute("CREATE TABLE notes (text TEXT)")
    return path


def check_late(connection: Any) -> None:
    """As a stale holder, after a write."""
    insert = "INSERT INTO notes VALUES ('stale')"
    connection.execute(insert if isinstance(connection, sqlite3.Connection) else text(insert))
    GUARD.check(connection, FIRST.rival())


@pytest.mark.parametrize("level", ["", "DEFERRED", "IMMEDIATE", "EXCLUSIVE"])
def test_by_itself(file: Path, level: Any) -> None:
    with closing(sqlite3.connect(file, isolation_level=level)) as connection:
        GUARD.check(connection, FIRST)
        assert connection.in_transaction
        connection.commit()
        with pytest.raises(StaleFence), connection:
            check_late(connection)
        assert connection.execute("SELECT * FROM notes").fetchall() == []


@pytest.mark.parametrize("begin", ["BEGIN", "BEGIN IMMEDIATE", "SAVEPOINT s"])
def test_by_hand(file: Path, begin: str) -> None:
    with closing(sqlite3.connect(file, isolation_level=None)) as connection:
        with pytest.raises(Unsupported):
            GUARD.check(connection, FIRST)
        connection.execute(begin)
        GUARD.check(connection, FIRST)
        connection.execute("ROLLBACK")
        assert GUARD.newest(connection, FIRST.name) == 0


@pytest.mark.skipif(sys.version_info < (3, 12), reason="autocommit= is new in Python 3.12")
def test_autocommit_as_an_argument(file: Path) -> None:
    connect: Any = sqlite3.connect
    with closing(connect(file, autocommit=True)) as connection, pytest.raises(Unsupported):
        GUARD.check(connection, FIRST)
    with closing(connect(file, autocommit=False)) as connection:
        GUARD.check(connection, FIRST)
        connection.rollback()
        assert GUARD.newest(connection, FIRST.name) == 0


class Newer:
    """A connection of Python 3.12, as far as the guard looks."""

    isolation_level = ""
    in_transaction = False

    def __init__(self, autocommit: bool) -> None:
        self.autocommit = autocommit


Newer.__module__, Newer.__name__ = "sqlite3", "Connection"


def test_autocommit_wins_over_the_isolation_level() -> None:
    with pytest.raises(Unsupported):
        GUARD.check(Newer(autocommit=True), FIRST)
    with pytest.raises(AttributeError, match="cursor"):  # it would go on
        GUARD.check(Newer(autocommit=False), FIRST)


def test_sqlalchemy_that_says_begin_itself(file: Path) -> None:
    """The recipe of its manual for SQLite: the driver is told to begin nothing, an event does."""
    engine = create_engine(f"sqlite:///{file}")

    @event.listens_for(engine, "connect")
    def _(connection: Any, _: Any) -> None:
        connection.isolation_level = None

    @event.listens_for(engine, "begin")
    def _(connection: Any) -> None:
        connection.exec_driver_sql("BEGIN IMMEDIATE")

    with engine.connect() as connection:
        GUARD.check(connection, FIRST)
        connection.execute(text("INSERT INTO notes VALUES ('good')"))
        connection.commit()
    with pytest.raises(StaleFence), engine.begin() as connection:
        check_late(connection)
    with engine.connect() as connection:
        assert connection.execute(text("SELECT text FROM notes")).fetchall() == [("good",)]
    engine.dispose()
