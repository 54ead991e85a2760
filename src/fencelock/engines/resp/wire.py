"""Redis's wire protocol (RESP3), and how we introduce ourselves."""

from __future__ import annotations

from ssl import SSLContext
from typing import Any, Final, NamedTuple

import hiredis

from fencelock.engines.failure import RequestFailed
from fencelock.engines.resp.packing import Command
from fencelock.engines.resp.script import Script

MORE: Final = object()
"""What a reader answers when a reply is not complete yet."""

OLDEST: Final = 7
"""The first version whose scripts may say that they must run although the memory is full."""


class Rejected(RequestFailed):
    """A server can be talked to, but does not do what it was asked for."""


NOT_REDIS: Final = "the server there does not speak Redis's protocol"


def said(error: hiredis.ReplyError) -> str:
    """What a server answered, without what it repeats of our request: that may be a secret."""
    return str(error).partition(", with args beginning with")[0]


def forgotten(reply: object) -> bool:
    """Whether a server does not know the script that was called."""
    return isinstance(reply, hiredis.ReplyError) and str(reply).startswith("NOSCRIPT")


class Login(NamedTuple):
    """How to introduce oneself to a server, and what to bring along."""

    user: str | None = None
    password: str | None = None
    database: int = 0
    tls: SSLContext | None = None
    scripts: tuple[Script, ...] = ()
    questions: tuple[Command, ...] = ()
    """What to ask each new connection; the link keeps the answers, errors among them."""

    def __repr__(self) -> str:
        return f"<Login as {self.user or 'default'}>"


def reader() -> hiredis.Reader:
    """A parser of replies; pushed messages come out as `hiredis.PushNotification`."""
    return hiredis.Reader(notEnoughData=MORE)


def greeting(login: Login, channel: str, *, scripts: bool) -> list[Command]:
    """What is sent first on a connection: log in, listen, choose the database, bring the scripts, ask.

    SUBSCRIBE is answered by a push, so there is one reply less than commands.
    """
    auth: Command = ()
    if login.user or login.password:
        auth = ("AUTH", login.user or "default", login.password or "")
    commands: list[Command] = [
        ("HELLO", "3", *auth, "SETNAME", "fencelock"),
        ("SUBSCRIBE", channel),
    ]
    if login.database:  # a Sentinel knows no databases, and 0 is where everybody starts
        commands.append(("SELECT", str(login.database)))
    if scripts:
        commands += [("SCRIPT", "LOAD", script.text) for script in login.scripts]
    return [*commands, *login.questions]


def refusal(replies: list[Any]) -> RequestFailed | None:
    """Why a server does not want us, or why we can't use it, if its answers to a greeting say so."""
    welcome = replies[0]
    if isinstance(welcome, dict):
        version = bytes(welcome.get(b"version", b"")).decode(errors="replace")
        major = version.partition(".")[0]
        if major.isdigit() and int(major) < OLDEST:
            wanted = f"but Fencelock needs Redis {OLDEST} or newer"
            return RequestFailed(f"the server is version {version}, {wanted}", "not applied")
    elif not isinstance(welcome, hiredis.ReplyError):
        return RequestFailed(NOT_REDIS, "not applied")
    for reply in replies:
        if isinstance(reply, hiredis.ReplyError):
            return RequestFailed(said(reply), "not applied")
    return None


def pushed(message: list[Any]) -> tuple[str, str] | None:
    """The ticket's id and the rest of a wake-up, or None for another kind of push."""
    try:
        if message[0] != b"message":
            return None
        id, _, rest = message[2].decode(errors="replace").partition(" ")
    except (IndexError, AttributeError) as error:  # the link is out of step
        raise hiredis.ProtocolError("a push that is none") from error
    return id, rest
