"""Redis's wire protocol (RESP3) and our scripts, ready to send."""

from __future__ import annotations

from collections.abc import Callable
from hashlib import sha1
from importlib.resources import files
from ssl import SSLContext
from typing import Any, Final, NamedTuple, cast

import hiredis

from holdfast.core.errors import Outcome

MORE: Final = object()
"""What a reader answers when a reply is not complete yet."""

Command = tuple[str | bytes | int, ...]


_pack: Callable[[Command], bytes] = cast(
    Any, hiredis.pack_command
)  # its stub allows one argument only


class Broken(Exception):
    """A link can't be used any more; `outcome` says what became of the request."""

    def __init__(self, message: str, outcome: Outcome) -> None:
        super().__init__(message)
        self.outcome: Outcome = outcome


class Login(NamedTuple):
    """How to introduce oneself to a server."""

    user: str | None = None
    password: str | None = None
    database: int = 0
    tls: SSLContext | None = None

    def __repr__(self) -> str:
        return f"<Login as {self.user or 'default'}>"


def reader() -> hiredis.Reader:
    """A parser of replies; pushed messages come out as `hiredis.PushNotification`."""
    return hiredis.Reader(notEnoughData=MORE)


def pack(commands: list[Command]) -> bytes:
    """Several commands as the bytes of one write."""
    return b"".join([_pack(command) for command in commands])


class Script:
    """One Lua script, called by its hash."""

    def __init__(self, name: str, flags: str = "") -> None:
        folder = files(__package__) / "lua"
        # allow-oom: a full server must still let holders renew and release.
        shebang = f"#!lua flags={flags}\n" if flags else "#!lua\n"
        self.text = shebang + "".join(
            (folder / f"{part}.lua").read_text("utf-8") for part in ("common", name)
        )
        self.sha = sha1(self.text.encode()).hexdigest()

    def call(self, keys: tuple[str, str], *args: str | bytes | int) -> Command:
        return ("EVALSHA", self.sha, 2, *keys, *args)

    def spell_out(self, command: Command) -> Command:
        """The same call with the whole text, for a server that does not know the hash."""
        return ("EVAL", self.text, *command[2:])


ENTER = Script("enter")
RENEW = Script("renew", "allow-oom")
LEAVE = Script("leave", "allow-oom")
EVICT = Script("evict", "allow-oom")
INSPECT = Script("inspect", "allow-oom")
SCRIPTS = {script.sha: script for script in (ENTER, RENEW, LEAVE, EVICT, INSPECT)}


def greeting(login: Login, channel: str, *, scripts: bool) -> list[Command]:
    """What is sent first on a connection: log in, choose the database, listen, bring the scripts.

    SUBSCRIBE is answered by a push, so there is one reply less than commands.
    """
    auth = ("AUTH", login.user or "default", login.password) if login.password else ()
    commands: list[Command] = [("HELLO", 3, *auth, "SETNAME", "holdfast"), ("SUBSCRIBE", channel)]
    commands.append(("SELECT", login.database))
    if scripts:
        commands += [("SCRIPT", "LOAD", script.text) for script in SCRIPTS.values()]
    return commands


def pushed(message: list[Any]) -> tuple[str, str] | None:
    """The ticket's id and the rest of a wake-up, or None for another kind of push."""
    if message[0] != b"message":
        return None
    id, _, rest = bytes(message[2]).decode().partition(" ")
    return id, rest
