"""Commands as the bytes that Redis reads."""

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


def bulks(*words: str | bytes) -> bytes:
    """Words as a command has them, without its beginning: to be put together with others."""
    packed = _pack(words)
    return packed[packed.index(b"\n") + 1 :]


@lru_cache(1024)
def bulk(word: str) -> bytes:
    """One word that is used again and again."""
    return bulks(word)
