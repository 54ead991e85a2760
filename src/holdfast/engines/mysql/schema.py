"""The tables and procedures in a database: how they are made, and what calls them.

Procedures and not several statements in one packet: a procedure decides between its statements, so that
every operation is one round trip; and it ends its own transaction, so that none is ever left open. Not
functions either: where the server keeps a binary log, only its administrator may create those.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache
from importlib.resources import files
from typing import Any

PREFIX = "holdfast"
"""What the names of tables and procedures begin with, unless the URL says otherwise."""

_PARTS = ("tables", "queue", "sweep", "enter", "renew", "leave", "listen", "inspect")
_SESSIONS = ("sessions",)

MODE = "STRICT_TRANS_TABLES,NO_ENGINE_SUBSTITUTION"
"""The sql_mode to create them in: procedures remember it."""

_BEFORE = f"""\
-- Holdfast's tables and procedures, version 1, for the database that is chosen (USE). It can be run again
-- at any time: locks that are held stay as they are. Procedures have the version in their names, so an
-- older Holdfast can go on beside it.

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
    """The same, as statements to be sent one after the other, each with the name of what it creates."""
    parts = _SESSIONS if sessions else _PARTS
    statements = "\n".join(_parts(prefix, parts)).split("\n//\n")
    return [(_created(piece), piece.strip()) for piece in statements if piece.strip()]


def _created(piece: str) -> str:
    found = re.search(r"^CREATE \w+ IF NOT EXISTS (\w+)", piece, re.MULTILINE)
    return found[1] if found else ""


def _parts(prefix: str, names: tuple[str, ...]) -> list[str]:
    folder = files(__package__).joinpath("sql")
    parts = [folder.joinpath(f"{part}.sql").read_text("utf-8") for part in names]
    # The names of GET_LOCKs, "holdfast.…", are the same for all.
    return [part.replace("holdfast_", f"{prefix}_") for part in parts]


class Calls:
    """What the engine asks, each one round trip."""

    def __init__(self, prefix: str) -> None:
        self._prefix = prefix

    def enter(
        self, name: str, id: str, ttl_us: str, channel: str, owner: str, if_free: bool
    ) -> str:
        free = "1" if if_free else "0"
        return (
            f"CALL {self._prefix}_v1_enter({binary(name)},{binary(id)},{ttl_us},"
            f"{binary(channel)},{binary(owner)},{free})"
        )

    def renew(self, tickets: Iterable[tuple[str, str, str]]) -> str:
        packed = b"".join(
            _sized(name, 4) + _sized(id, 4) + ttl_us.zfill(16).encode()
            for name, id, ttl_us in tickets
        )
        return f"CALL {self._prefix}_v1_renew({_literal(packed)})"

    def leave(self, name: str, id: str, departure: int) -> str:
        return f"CALL {self._prefix}_v1_leave({binary(name)},{binary(id)},{departure:d})"

    def listen(self, waiting: dict[str, list[str]], seconds: float) -> str:
        packed = b"".join(
            _sized(name, 4) + _sized(",".join(ids), 8) for name, ids in waiting.items()
        )
        return f"CALL {self._prefix}_v1_listen({_literal(packed)},{seconds:.3f})"

    def inspect(self, name: str, most: int) -> str:
        return f"CALL {self._prefix}_v1_inspect({binary(name)},{most:d})"

    def names(self) -> str:
        return f"CALL {self._prefix}_v1_names()"

    def evict(self, name: str) -> str:
        return f"CALL {self._prefix}_v1_evict({binary(name)})"


@cache
def calls(prefix: str) -> Calls:
    return Calls(prefix)


class SessionCalls:
    """What mysql+getlock:// asks."""

    def __init__(self, prefix: str) -> None:
        self._prefix = prefix + "_v1_session"

    def enter(self, name: str, id: str, hash: str, owner: str, if_free: bool) -> str:
        values = f"{binary(name)},{binary(id)},{binary(hash)},{binary(owner)},{if_free:d}"
        return f"CALL {self._prefix}_enter({values})"

    def wait(self, hash: str) -> str:
        return f"SELECT GET_LOCK({binary(hash)},31536000)"

    def admit(self, name: str, id: str, hash: str, owner: str) -> str:
        values = f"{binary(name)},{binary(id)},{binary(hash)},{binary(owner)}"
        return f"CALL {self._prefix}_admit({values})"

    def renew(self, ids: Iterable[str]) -> str:
        return f"CALL {self._prefix}_renew({binary(','.join(ids))})"

    def leave(self, name: str, id: str, hash: str, departure: int) -> str:
        values = f"{binary(name)},{binary(id)},{binary(hash)},{departure:d}"
        return f"CALL {self._prefix}_leave({values})"

    def end(self, id: str, departure: int) -> str:
        return f"CALL {self._prefix}_end({binary(id)},{departure:d})"

    def inspect(self, name: str, most: int) -> str:
        return f"CALL {self._prefix}_inspect({binary(name)},{most:d})"

    def names(self) -> str:
        return f"CALL {self._prefix}_names()"

    def evict(self, name: str) -> str:
        return f"CALL {self._prefix}_evict({binary(name)})"


def text_of(rows: Iterable[tuple[Any, ...]]) -> list[str]:
    """The first column of rows, whether the server calls it text, bytes or a number."""
    return [row[0].decode() if isinstance(row[0], bytes) else str(row[0]) for row in rows]


def binary(text: str) -> str:
    """A text as a literal that needs no quoting, whatever the server's mode and character set."""
    return _literal(text.encode())


def _literal(value: bytes) -> str:
    return f"X'{value.hex()}'"


def _sized(text: str, digits: int) -> bytes:
    value = text.encode()
    return str(len(value)).zfill(digits).encode() + value
