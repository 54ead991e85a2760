"""How replies are read, and what a failure means: what happened, and what to do about it.

A reply is a value or one of kazoo's exceptions; the reply to a transaction is a list of these.
"""

from __future__ import annotations

from typing import Any

from kazoo.exceptions import (
    AuthFailedError,
    InvalidACLError,
    NoAuthError,
    NoNodeError,
    RolledBackError,
    RuntimeInconsistency,
    UnimplementedError,
)

from fencelock.engines.failure import RequestFailed

_REFUSALS = {
    NoAuthError: (
        "the server does not allow it: the nodes belong to another user; check the user and the "
        "password in the URL, zookeeper://user:password@host, or use another path"
    ),
    InvalidACLError: (
        "the server does not accept the user as the owner of nodes: put a user and a password "
        "in the URL, zookeeper://user:password@host"
    ),
    AuthFailedError: "authentication failed: check the user and the password in the URL",
    UnimplementedError: "the server is too old: Fencelock needs ZooKeeper 3.5.3 or newer",
}
_ROLLED_BACK = (RolledBackError, RuntimeInconsistency)
"""What a transaction answers for the parts that did not fail themselves."""

_NO_TLS = "does it speak TLS at all? if not, use zookeeper://"

_HINTS = {  # by a part of the message
    "CERTIFICATE_VERIFY_FAILED": (
        "name the authority that signed its certificate with ?ca=FILE, "
        "and the host as it stands in the certificate"
    ),
    "WRONG_VERSION_NUMBER": _NO_TLS,
    "record layer failure": _NO_TLS,
    "handshake": _NO_TLS,
    "EOF occurred": _NO_TLS,
    "broken": (
        "it hung up: is it part of an ensemble that has lost its majority? is this its address "
        "and port? if it wants TLS, use zookeepers://"
    ),
    "protocol": "is this the right address and port? for TLS use zookeepers://",
    "AuthFailed": _REFUSALS[AuthFailedError],
}


def gone(reply: Any) -> bool:
    """Whether a node that was asked for is not there."""
    return isinstance(reply, NoNodeError)


def done(reply: Any) -> bool:
    """Whether all parts of a transaction were carried out."""
    return isinstance(reply, list) and not any(isinstance(part, Exception) for part in reply)


def missing(reply: Any, part: int = 0) -> bool:
    """Whether a transaction failed because the node of this part is not there. Mostly that is the ticket."""
    return isinstance(reply, list) and gone(reply[part])


def forbidden(reply: Any, before: int) -> bool:
    """Whether a transaction failed because the server does not allow a part before this one."""
    return isinstance(reply, list) and any(isinstance(part, NoAuthError) for part in reply[:before])


def value(reply: Any) -> Any:
    """Return the reply, or raise `RequestFailed` if it is an error."""
    if isinstance(reply, Exception):
        raise rejection(reply)
    return reply


def rejection(reply: Any) -> RequestFailed:
    """What an unexpected error means; in a transaction, the part that failed."""
    if isinstance(reply, list):
        reply = next((part for part in reply if not isinstance(part, _ROLLED_BACK)), reply)
    for kind, advice in _REFUSALS.items():
        if isinstance(reply, kind):
            return RequestFailed(advice, "not applied")
    return RequestFailed(f"the server answered {type(reply).__name__}", "unknown")


def explained(error: RequestFailed) -> str:
    """What happened and what to do about it, for the user."""
    text = str(error)
    if "connect" not in text or "lost" in text or "closed" in text:
        advice = "whether the request was carried out is not known"
        return f"{text}: {advice}" if error.outcome == "unknown" else text
    hints = [hint for part, hint in _HINTS.items() if part in text]
    default = "are the servers running there, and have they a majority?"
    return f"{text}: {hints[0] if hints else default}"
