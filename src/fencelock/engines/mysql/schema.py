"""The tables and procedures in a database, and how they are made.

Procedures and not several statements in one packet: a procedure decides between its statements, so that
every operation is one round trip; and it ends its own transaction, so that none is ever left open. Not
functions either: where the server keeps a binary log, only its administrator may create those.
"""

from __future__ import annotations

import re
from importlib.resources import files

PREFIX = "fencelock"
"""What the names of tables and procedures begin with, unless the URL says otherwise."""

_PARTS = ("tables", "queue", "sweep", "enter", "renew", "leave", "notes", "listen", "inspect")
_SESSIONS = ("sessions",)

MODE = "STRICT_TRANS_TABLES,NO_ENGINE_SUBSTITUTION"
"""The sql_mode to create them in: procedures remember it."""

_BEFORE = f"""\
-- Fencelock's tables and procedures, version 2, for the database that is chosen (USE). It can be run again
-- at any time: locks that are held stay as they are, those of version 1 too. But an older Fencelock is
-- refused from then on: update them all.

SET sql_mode = '{MODE}';
DELIMITER //

"""

_AFTER = """
DELIMITER ;

-- Whoever shall use locks, for instance the user app, needs this, if the database is named locks:
--   GRANT SELECT, INSERT, UPDATE, DELETE, EXECUTE ON locks.* TO app;
"""


def script(prefix: str = PREFIX) -> str:
    """All that has to be in a database, as SQL for the command line client."""
    return _BEFORE + "\n".join(_parts(prefix, _PARTS + _SESSIONS)) + _AFTER


def pieces(prefix: str, *, sessions: bool = False) -> list[tuple[str, str]]:
    """The same, as statements to be sent one after the other, each with what it makes or drops."""
    parts = _SESSIONS if sessions else _PARTS
    statements = "\n".join(_parts(prefix, parts)).split("\n//\n")
    return [(_subject(piece), piece.strip()) for piece in statements if piece.strip()]


def _subject(piece: str) -> str:
    """Of one that does no harm if it is run once more, nothing."""
    found = re.search(r"^(?:CREATE|DROP) \w+ IF (?:NOT )?EXISTS (\w+)", piece, re.MULTILINE)
    return found[1] if found else ""


def _parts(prefix: str, names: tuple[str, ...]) -> list[str]:
    folder = files(__package__).joinpath("sql")
    parts = [folder.joinpath(f"{part}.sql").read_text("utf-8") for part in names]
    # The names of GET_LOCKs, "fencelock.…", are the same for all.
    return [part.replace("fencelock_", f"{prefix}_") for part in parts]
