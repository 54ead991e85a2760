"""Packs commands into the bytes that Redis reads."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any, cast

import hiredis

# Never an int: hiredis 3.5 crashes the interpreter if a signal arrives while it converts one.
Command = tuple[str | bytes, ...]

# The stub of pack_command knows tuples of one element only.
_pack: Callable[[Command], bytes] = cast(Any, hiredis.pack_command)


def pack(commands: list[Command]) -> bytes:
    """Several commands as the bytes of one write."""
    if len(commands) == 1:
        return _pack(commands[0])
    return b"".join([_pack(command) for command in commands])


def bulks(*arguments: str | bytes) -> bytes:
    """Arguments as a command contains them (RESP bulk strings), without the head of the command."""
    packed = _pack(arguments)
    return packed[packed.index(b"\n") + 1 :]


@lru_cache(1024)
def bulk(argument: str) -> bytes:
    """One argument that is used often."""
    return bulks(argument)
