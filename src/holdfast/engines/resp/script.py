"""Lua scripts that run inside a server, ready to be called."""

from __future__ import annotations

from hashlib import sha1

from holdfast.core.errors import EngineError
from holdfast.core.ticket import Ticket

# Never an int: hiredis 3.5 crashes the interpreter if a signal arrives while it converts one.
Command = tuple[str | bytes, ...]


class Script:
    """One Lua script, called by its hash."""

    def __init__(self, text: str, flags: str = "") -> None:
        # allow-oom: a full server must still let holders renew and release.
        self.text = (f"#!lua flags={flags}\n" if flags else "#!lua\n") + text
        self.sha = sha1(self.text.encode()).hexdigest()

    def call(self, keys: tuple[str, ...], *args: str | bytes) -> Command:
        return ("EVALSHA", self.sha, str(len(keys)), *keys, *args)

    def spell_out(self, command: Command) -> Command:
        """The same call with the whole text, for a server that does not know the hash."""
        return ("EVAL", self.text, *command[2:])


_HIGHEST = 2**52
"""The highest fence to begin with: above twice this, Lua can't tell a number from the next."""


def floor_of(ticket: Ticket) -> int:
    """The fence above which the scripts are to number a ticket, if they can count so far."""
    if ticket.floor >= _HIGHEST:
        raise EngineError(
            f"Redis can't hand out a fence above {ticket.floor}: give a floor below {_HIGHEST}",
            outcome="not applied",
            name=ticket.name,
        )
    return ticket.floor
