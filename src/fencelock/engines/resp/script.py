"""Lua scripts that run inside a server, ready to be called."""

from __future__ import annotations

import re
from hashlib import sha1
from importlib.resources import files

from fencelock.core.errors import EngineError
from fencelock.engines.resp.packing import bulks, pack

_INCLUDE = re.compile(r"--\[\[(\w+)\.lua\]\]\n")


def assembled(package: str, *names: str) -> str:
    """The text of these files, one after the other, each with those that it names: `--[[other.lua]]`.

    In the middle, not at the top: what most calls don't need would still cost each of them.
    """

    def read(name: str) -> str:
        text = (files(package) / "lua" / f"{name}.lua").read_text("utf-8")
        return _INCLUDE.sub(lambda include: read(include[1]), text)

    return "".join(map(read, names))


class Script:
    """One Lua script, called by its hash."""

    def __init__(self, text: str, flags: str = "") -> None:
        # allow-oom: a full server must still let holders renew and release.
        self.text = (f"#!lua flags={flags}\n" if flags else "#!lua\n") + text
        self.sha = sha1(self.text.encode()).hexdigest()
        self._by_hash = bulks("EVALSHA", self.sha)

    def call(self, keys: tuple[str, ...], *words: str | bytes) -> bytes:
        """The bytes that call it."""
        return pack([("EVALSHA", self.sha, str(len(keys)), *keys, *words)])

    def begin(self, keys: tuple[str, ...], count: int) -> bytes:
        """The same, as far as the keys, if so many words follow: for those who pack them by themselves."""
        words = self._by_hash + bulks(str(len(keys)), *keys)
        return b"*%d\r\n%b" % (3 + len(keys) + count, words)

    def spell_out(self, call: bytes) -> bytes:
        """The same call with the whole text, for a server that does not know the hash."""
        return call.replace(self._by_hash, bulks("EVAL", self.text), 1)


_HIGHEST = 2**52
"""The highest fence to begin with: above twice this, Lua can't tell a number from the next."""


def floor_of(name: str, floor: int) -> int:
    """The fence above which the scripts are to number a ticket, if they can count so far."""
    if floor >= _HIGHEST:
        raise EngineError(
            f"Redis can't hand out a fence above {floor}: give a floor below {_HIGHEST}",
            outcome="not applied",
            name=name,
        )
    return floor
