"""Redis's wire protocol (RESP3): the greeting of a connection, and how replies and pushes are read."""

from __future__ import annotations

from ssl import SSLContext
from typing import Any, Final, NamedTuple

import hiredis

from fencelock.core.url import Credentials
from fencelock.engines.failure import RequestFailed
from fencelock.engines.resp.packing import Command
from fencelock.engines.resp.script import Script

MORE: Final = object()
"""What a reader returns when a reply is not complete yet."""

OLDEST: Final = 7
"""The first version of Redis that can run scripts when the memory is full (the flag allow-oom)."""


class Rejected(RequestFailed):
    """The server answered with an error. The connection is fine."""


NOT_REDIS: Final = "the server there does not speak Redis's protocol"


def error_text(error: hiredis.ReplyError) -> str:
    """The text of an error, without the arguments that a server may quote: they may be secret."""
    return str(error).partition(", with args beginning with")[0]


def script_missing(reply: object) -> bool:
    """Whether a server does not know the script that was called."""
    return isinstance(reply, hiredis.ReplyError) and str(reply).startswith("NOSCRIPT")


class Login(NamedTuple):
    """How to log in to a server, and what to load and ask on each new connection."""

    user: str | None = None
    password: str | None = None
    database: int = 0
    tls: SSLContext | None = None
    credentials: Credentials | None = None
    """Asked for user and password for each new connection."""
    scripts: tuple[Script, ...] = ()
    questions: tuple[Command, ...] = ()
    """Commands whose replies the link keeps, including error replies."""

    def __repr__(self) -> str:
        return f"<Login as {self.user or 'default'}>"


def reader() -> hiredis.Reader:
    """A parser of replies. It returns pushed messages as `hiredis.PushNotification`."""
    return hiredis.Reader(notEnoughData=MORE)


def greeting(login: Login, channel: str, *, scripts: bool) -> list[Command]:
    """The first commands on a connection: log in, subscribe, choose the database, load scripts, ask
    questions.

    SUBSCRIBE is answered by a push, so there is one reply less than there are commands.
    """
    auth: Command = ()
    if login.user or login.password:
        auth = ("AUTH", login.user or "default", login.password or "")
    commands: list[Command] = [
        ("HELLO", "3", *auth, "SETNAME", "fencelock"),
        ("SUBSCRIBE", channel),
    ]
    if login.database:  # 0 is the default, and a Sentinel has no databases
        commands.append(("SELECT", str(login.database)))
    if scripts:
        commands += [("SCRIPT", "LOAD", script.text) for script in login.scripts]
    return [*commands, *login.questions]


def refusal(replies: list[Any]) -> RequestFailed | None:
    """Why the server refuses us, or why we can't use it, from its replies to the greeting."""
    hello = replies[0]
    if isinstance(hello, dict):
        version = bytes(hello.get(b"version", b"")).decode(errors="replace")
        major = version.partition(".")[0]
        if major.isdigit() and int(major) < OLDEST:
            wanted = f"but Fencelock needs Redis {OLDEST} or newer"
            return RequestFailed(f"the server is version {version}, {wanted}", "not applied")
    elif not isinstance(hello, hiredis.ReplyError):
        return RequestFailed(NOT_REDIS, "not applied")
    for reply in replies:
        if isinstance(reply, hiredis.ReplyError):
            return RequestFailed(error_text(reply), "not applied")
    return None


def wake_up_of(message: list[Any]) -> tuple[str, str] | None:
    """The ticket's id and the rest of a wake-up. None for another kind of push."""
    try:
        if message[0] != b"message":
            return None
        id, _, rest = message[2].decode(errors="replace").partition(" ")
    except (IndexError, AttributeError) as error:
        raise hiredis.ProtocolError("a malformed push") from error
    return id, rest
