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

OLDEST: Final = 7
"""The first version whose scripts may say that they must run although the memory is full."""

# Never an int: hiredis 3.5 crashes the interpreter if a signal arrives while it converts one.
Command = tuple[str | bytes, ...]

# The stub of pack_command knows tuples of one element only.
_pack: Callable[[Command], bytes] = cast(Any, hiredis.pack_command)


class Broken(Exception):
    """A link can't be used any more; `outcome` says what became of the request."""

    def __init__(self, message: str, outcome: Outcome) -> None:
        super().__init__(message)
        self.outcome: Outcome = outcome


NOT_REDIS: Final = "the server there does not speak Redis's protocol"


def said(error: hiredis.ReplyError) -> str:
    """What a server answered, without what it repeats of our request: that may be a secret."""
    return str(error).partition(", with args beginning with")[0]


def forgotten(reply: object) -> bool:
    """Whether a server does not know the script that was called."""
    return isinstance(reply, hiredis.ReplyError) and str(reply).startswith("NOSCRIPT")


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
    if len(commands) == 1:
        return _pack(commands[0])
    return b"".join([_pack(command) for command in commands])


class Script:
    """One Lua script, called by its hash."""

    def __init__(self, name: str, flags: str = "") -> None:
        folder = files(__package__) / "lua"
        # allow-oom: a full server must still let holders renew and release.
        shebang = f"#!lua flags={flags}\n" if flags else "#!lua\n"
        common, own, queue = (
            (folder / f"{part}.lua").read_text("utf-8") for part in ("common", name, "queue")
        )
        # In the middle, not at the top: what most calls don't need would still cost each of them.
        self.text = shebang + common + own.replace("--[[queue.lua]]\n", queue)
        self.sha = sha1(self.text.encode()).hexdigest()

    def call(self, keys: tuple[str, str, str], *args: str | bytes) -> Command:
        return ("EVALSHA", self.sha, "3", *keys, *args)

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
    """What is sent first on a connection: log in, listen, choose the database, bring the scripts.

    SUBSCRIBE is answered by a push, so there is one reply less than commands.
    """
    auth: Command = ()
    if login.user or login.password:
        auth = ("AUTH", login.user or "default", login.password or "")
    commands: list[Command] = [("HELLO", "3", *auth, "SETNAME", "holdfast"), ("SUBSCRIBE", channel)]
    if login.database:  # a Sentinel knows no databases, and 0 is where everybody starts
        commands.append(("SELECT", str(login.database)))
    if scripts:
        commands += [("SCRIPT", "LOAD", script.text) for script in SCRIPTS.values()]
    return commands


def refusal(replies: list[Any]) -> Broken | None:
    """Why a server does not want us, or why we can't use it, if its answers to a greeting say so."""
    welcome = replies[0]
    if isinstance(welcome, dict):
        version = bytes(welcome.get(b"version", b"")).decode(errors="replace")
        major = version.partition(".")[0]
        if major.isdigit() and int(major) < OLDEST:
            wanted = f"but Holdfast needs Redis {OLDEST} or newer"
            return Broken(f"the server is version {version}, {wanted}", "not applied")
    elif not isinstance(welcome, hiredis.ReplyError):
        return Broken(NOT_REDIS, "not applied")
    for reply in replies:
        if isinstance(reply, hiredis.ReplyError):
            return Broken(said(reply), "not applied")
    return None


def pushed(message: list[Any]) -> tuple[str, str] | None:
    """The ticket's id and the rest of a wake-up, or None for another kind of push."""
    if message[0] != b"message":
        return None
    id, _, rest = bytes(message[2]).decode(errors="replace").partition(" ")
    return id, rest
