"""The tables and functions in a database: how they are made, and what calls them."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from importlib.resources import files
from typing import NamedTuple

SCHEMA = "holdfast"
"""Where they are, unless the URL says otherwise."""

_PARTS = ("tables", "queue", "sweep", "enter", "renew", "leave", "inspect", "sessions")

_BEFORE = """\
-- Holdfast's tables and functions, version 1. It can be run again at any time: locks that are held
-- stay as they are. Functions have the version in their names, so an older Holdfast can go on beside it.

BEGIN;
SELECT pg_advisory_xact_lock(hashtextextended('holdfast', 0));

-- Not IF NOT EXISTS: that wants the right to create schemas even where it is there.
DO $$ BEGIN
    IF to_regnamespace('holdfast') IS NULL THEN
        CREATE SCHEMA holdfast;
    END IF;
END $$;
"""

_AFTER = """
COMMIT;

-- Whoever shall use locks, for instance the role app, needs:
--   GRANT USAGE ON SCHEMA holdfast TO app;
--   GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA holdfast TO app;
"""


def script(schema: str = SCHEMA) -> str:
    """All that has to be in a database, as plain SQL."""
    folder = files(__package__).joinpath("sql")
    parts = [folder.joinpath(f"{part}.sql").read_text("utf-8") for part in _PARTS]
    return _within(schema, "\n".join([_BEFORE, *parts, _AFTER]))


class Statement(NamedTuple):
    """A statement, and the name under which a connection may have prepared it."""

    name: bytes
    sql: bytes


class Statements:
    """What the engine asks, each one round trip."""

    def __init__(self, schema: str) -> None:
        self.enter = _statement(schema, "enter", "text, text, bigint, text, text, boolean")
        self.renew = _statement(schema, "renew", "text[], text[], bigint[]")
        self.leave = _statement(schema, "leave", "text, text, int")
        self.inspect = _statement(schema, "inspect", "text, int")
        self.names = _statement(schema, "names", "")
        self.evict = _statement(schema, "evict", "text")
        self.admitted = _statement(schema, "admitted", "text[], text[]")
        self.notify = Statement(b"holdfast_notify", b"SELECT pg_notify($1, $2)")


class SessionStatements:
    """The same for the advisory engine."""

    def __init__(self, schema: str) -> None:
        enter = "text, text, bigint, text, boolean"
        self.enter = _statement(schema, "session_enter", enter)
        self.admit = _statement(schema, "session_admit", "text, text, bigint, text")
        self.leave = _statement(schema, "session_leave", "text, text, bigint, int")
        self.end = _statement(schema, "session_end", "text, int")
        self.renew = _statement(schema, "session_renew", "text[]")
        self.inspect = _statement(schema, "session_inspect", "text, int")
        self.names = _statement(schema, "session_names", "")
        self.evict = _statement(schema, "session_evict", "text")
        self.wait = Statement(b"holdfast_wait", b"SELECT pg_advisory_lock($1::bigint)")


@cache
def statements(schema: str) -> Statements:
    return Statements(schema)


def array(items: Iterable[str]) -> str:
    """Texts or numbers as one argument."""
    return "{" + ",".join(f'"{_escaped(item)}"' for item in items) + "}"


def _escaped(item: str) -> str:
    return item.replace("\\", "\\\\").replace('"', '\\"') if '"' in item or "\\" in item else item


def _statement(schema: str, name: str, types: str) -> Statement:
    kinds = types.split(", ") if types else []
    values = ", ".join(f"${number}::{kind}" for number, kind in enumerate(kinds, 1))
    sql = _within(schema, f"SELECT holdfast.v1_{name}({values})")
    return Statement(f"holdfast_{name}".encode(), sql.encode())


def _within(schema: str, sql: str) -> str:
    if schema == SCHEMA:
        return sql
    sql = sql.replace("holdfast.", f"{schema}.").replace("SCHEMA holdfast", f"SCHEMA {schema}")
    return sql.replace("'holdfast'", f"'{schema}'")
