"""Django's connections: `django.db.connection` in an `atomic` block."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import django
import pytest
from django.conf import settings
from django.db import transaction
from django.db.utils import ConnectionHandler
from django.utils.connection import ConnectionProxy

from fencelock import StaleFence, Unsupported
from fencelock.guards import SqlGuard
from tests.guards.lease_likes import FIRST

GUARD = SqlGuard()


@pytest.fixture
def connection(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    if not settings.configured:
        settings.configure(LOGGING_CONFIG=None)
        django.setup()
    database = {"ENGINE": "django.db.backends.sqlite3", "NAME": tmp_path / "site.db"}
    handler = ConnectionHandler({"default": database})
    monkeypatch.setattr(importlib.import_module("django.db.transaction"), "connections", handler)
    connection = ConnectionProxy(handler, "default")  # what `django.db.connection` is
    GUARD.create(connection)
    with connection.cursor() as cursor:
        cursor.execute("CREATE TABLE notes (text TEXT)")
    yield connection
    handler.close_all()


def notes(connection: Any) -> list[tuple[str]]:
    with connection.cursor() as cursor:
        cursor.execute("SELECT text FROM notes")
        return list(cursor.fetchall())


def add(connection: Any, note: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute("INSERT INTO notes VALUES (%s)", [note])


def write(connection: Any, stamp: Any, note: str) -> None:
    with transaction.atomic():
        GUARD.check(connection, stamp)
        add(connection, note)


def write_and_check(connection: Any, stamp: Any, note: str) -> None:
    with transaction.atomic():
        add(connection, note)
        GUARD.check(connection, stamp)


def test_an_atomic_block_is_fenced(connection: Any) -> None:
    write(connection, FIRST, "first")
    write(connection, FIRST, "again")
    write(connection, FIRST.newer(), "newer")
    for stale in (FIRST, FIRST.newer().rival()):
        with pytest.raises(StaleFence):
            write(connection, stale, "stale")
    assert notes(connection) == [("first",), ("again",), ("newer",)]


def test_what_was_written_before_is_rolled_back(connection: Any) -> None:
    write(connection, FIRST.newer(), "newer")
    with pytest.raises(StaleFence):
        write_and_check(connection, FIRST, "stale")
    assert notes(connection) == [("newer",)]


def test_nested_blocks(connection: Any) -> None:
    with transaction.atomic():
        GUARD.check(connection, FIRST)
        with pytest.raises(StaleFence), transaction.atomic():
            GUARD.check(connection, FIRST.rival())
        GUARD.check(connection, FIRST)


def test_without_a_block(connection: Any) -> None:
    with pytest.raises(Unsupported, match="begin a transaction"):
        GUARD.check(connection, FIRST)
    assert GUARD.newest(connection, FIRST.name) == 0


def test_a_connection_that_is_no_proxy(connection: Any) -> None:
    with transaction.atomic():
        GUARD.check(connection._connections["default"], FIRST)
