"""The tables and functions in a database, and how they are made."""

from __future__ import annotations

from importlib.resources import files

SCHEMA = "fencelock"
"""Where they are, unless the URL says otherwise."""

_PARTS = ("tables", "queue", "sweep", "enter", "renew", "leave", "notes", "inspect", "sessions")

_BEFORE = """\
-- Fencelock's tables and functions, version 2. It can be run again at any time: locks that are held
-- stay as they are, those of version 1 too. But an older Fencelock is refused from then on: update them all.

BEGIN;
SELECT pg_advisory_xact_lock(hashtextextended('fencelock', 0));

-- Not IF NOT EXISTS: that wants the right to create schemas even where it is there.
DO $$ BEGIN
    IF to_regnamespace('fencelock') IS NULL THEN
        CREATE SCHEMA fencelock;
    END IF;
END $$;
"""

_AFTER = """
COMMIT;

-- Whoever shall use locks, for instance the role app, needs:
--   GRANT USAGE ON SCHEMA fencelock TO app;
--   GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA fencelock TO app;
"""


def script(schema: str = SCHEMA) -> str:
    """All that has to be in a database, as plain SQL."""
    folder = files(__package__).joinpath("sql")
    parts = [folder.joinpath(f"{part}.sql").read_text("utf-8") for part in _PARTS]
    return within(schema, "\n".join([_BEFORE, *parts, _AFTER]))


def within(schema: str, sql: str) -> str:
    """The same SQL for another schema."""
    if schema == SCHEMA:
        return sql
    sql = sql.replace("fencelock.", f"{schema}.").replace("SCHEMA fencelock", f"SCHEMA {schema}")
    return sql.replace("'fencelock'", f"'{schema}'")
