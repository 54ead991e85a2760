"""Lua scripts that run in a server, and how they are called."""

from __future__ import annotations

import re
from hashlib import sha1
from importlib.resources import files

from fencelock.core.errors import EngineError
from fencelock.engines.resp.packing import bulks, pack

_INCLUDE = re.compile(r"--\[\[(\w+)\.lua\]\]\n")


def assembled(package: str, *names: str) -> str:
    """The text of these files, one after the other. A line `--[[other.lua]]` includes another file.

    Includes stand in the middle of a script, not at its top: every call pays for the functions that it
    passes.
    """

    def read(name: str) -> str:
        text = (files(package) / "lua" / f"{name}.lua").read_text("utf-8")
        return _INCLUDE.sub(lambda include: read(include[1]), text)

    return "".join(map(read, names))


def packed_keys(keys: tuple[str, ...]) -> bytes:
    """The number of keys, and the keys, as a call contains them."""
    return bulks(str(len(keys)), *keys)


class Script:
    """One Lua script, called by its hash."""

    def __init__(self, text: str, flags: str = "") -> None:
        # The flag allow-oom: holders must be able to renew and release when the memory is full.
        self.text = (f"#!lua flags={flags}\n" if flags else "#!lua\n") + text
        self.sha = sha1(self.text.encode()).hexdigest()
        self._by_hash = bulks("EVALSHA", self.sha)

    def call(self, keys: tuple[str, ...], *arguments: str | bytes) -> bytes:
        """The bytes of a call."""
        return pack([("EVALSHA", self.sha, str(len(keys)), *keys, *arguments)])

    def head(self, keys: tuple[str, ...], count: int) -> bytes:
        """The first part of a call, up to the keys. The caller appends `count` packed arguments."""
        return self.head_of(packed_keys(keys), len(keys), count)

    def head_of(self, packed: bytes, keys: int, count: int) -> bytes:
        """The same for keys that are packed already."""
        return b"*%d\r\n%b%b" % (3 + keys + count, self._by_hash, packed)

    def with_text(self, call: bytes) -> bytes:
        """The same call with the script's text, for a server that does not know the hash."""
        return call.replace(self._by_hash, bulks("EVAL", self.text), 1)


_MAX_FLOOR = 2**52
"""Above twice this number Lua can't tell a number from the next one."""


def floor_of(name: str, floor: int) -> int:
    """The floor of a ticket's fence; `EngineError` if the scripts can't count so far."""
    if floor >= _MAX_FLOOR:
        raise EngineError(
            f"Redis can't hand out a fence above {floor}: give a floor below {_MAX_FLOOR}",
            outcome="not applied",
            name=name,
        )
    return floor
