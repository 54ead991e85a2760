"""The SQL that creates the tables and functions in a database."""

from __future__ import annotations

from importlib.resources import files

SCHEMA = "fencelock"
"""The schema of the tables and functions, unless the URL names another."""

_PARTS = (
    "tables",
    "queue",
    "sweep",
    "enter",
    "renew",
    "leave",
    "markers",
    "notes",
    "inspect",
    "sessions",
)

_BEFORE = """\
-- Fencelock's tables and functions, version 2. You can run this again at any time: locks that are held
-- stay held.

BEGIN;
SELECT pg_advisory_xact_lock(hashtextextended('fencelock', 0));

-- Not IF NOT EXISTS: that needs the right to create schemas even if the schema exists.
DO $$ BEGIN
    IF to_regnamespace('fencelock') IS NULL THEN
        CREATE SCHEMA fencelock;
    END IF;
END $$;
"""

_AFTER = """
COMMIT;

-- A role that uses locks, for instance the role app, needs:
--   GRANT USAGE ON SCHEMA fencelock TO app;
--   GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA fencelock TO app;
"""


def script(schema: str = SCHEMA) -> str:
    """Everything that a database needs, as plain SQL."""
    folder = files(__package__).joinpath("sql")
    parts = [folder.joinpath(f"{part}.sql").read_text("utf-8") for part in _PARTS]
    return within(schema, "\n".join([_BEFORE, *parts, _AFTER]))


def within(schema: str, sql: str) -> str:
    """The same SQL for another schema."""
    if schema == SCHEMA:
        return sql
    sql = sql.replace("fencelock.", f"{schema}.").replace("SCHEMA fencelock", f"SCHEMA {schema}")
    return sql.replace("'fencelock'", f"'{schema}'")
