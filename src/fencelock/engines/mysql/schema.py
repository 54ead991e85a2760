"""The SQL that creates the tables and procedures in a database.

Why procedures, and not several statements in one packet: a procedure decides between its statements, so each
operation is one round trip. And it ends its own transaction, so none is ever left open. Why not functions:
where the server keeps a binary log, only its administrator may create functions.
"""

from __future__ import annotations

import re
from importlib.resources import files

PREFIX = "fencelock"
"""What the names of tables and procedures begin with, unless the URL names another prefix."""

_ROWS = ("tables", "queue", "sweep", "enter", "renew", "leave", "notes", "listen", "inspect")
_SESSIONS = ("sessions",)

MODE = "STRICT_TRANS_TABLES,NO_ENGINE_SUBSTITUTION"
"""The sql_mode in which they are created: procedures keep it."""

_BEFORE = f"""\
-- Fencelock's tables and procedures, version 2, for the current database (USE). You can run this again at any
-- time: locks that are held stay held.

SET sql_mode = '{MODE}';
DELIMITER //

"""

_AFTER = """
DELIMITER ;

-- A user who uses locks, for instance the user app, needs this, if the database is named locks:
--   GRANT SELECT, INSERT, UPDATE, DELETE, EXECUTE ON locks.* TO app;
"""


def script(prefix: str = PREFIX) -> str:
    """Everything that a database needs, as SQL for the command line client."""
    return _BEFORE + "\n".join(_parts(prefix, _ROWS + _SESSIONS)) + _AFTER


def statements(prefix: str, *, sessions: bool = False) -> list[tuple[str, str]]:
    """The same as single statements, each with the name of the table or procedure that it creates.

    The name is "" for a statement that does no harm if it runs again.
    """
    parts = "\n".join(_parts(prefix, _SESSIONS if sessions else _ROWS)).split("\n//\n")
    return [(_created(part), part.strip()) for part in parts if part.strip()]


def _created(statement: str) -> str:
    found = re.search(r"^CREATE \w+ IF NOT EXISTS (\w+)", statement, re.MULTILINE)
    return found[1] if found else ""


def _parts(prefix: str, names: tuple[str, ...]) -> list[str]:
    folder = files(__package__).joinpath("sql")
    parts = [folder.joinpath(f"{part}.sql").read_text("utf-8") for part in names]
    # The names of GET_LOCKs, "fencelock.…", are the same for every prefix.
    return [part.replace("fencelock_", f"{prefix}_") for part in parts]
