"""The one place where ZooKeeper's failures become ours: what happened, and what to do about it."""

from __future__ import annotations

from typing import Any

from kazoo.exceptions import (
    AuthFailedError,
    InvalidACLError,
    NoAuthError,
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
# In a transaction, what would have succeeded without the others.
_NOT_TO_BLAME = (RolledBackError, RuntimeInconsistency)

_NO_TLS = "does it speak TLS at all? if not, use zookeeper://"

# What else can go wrong, by a part of its message.
_HINTS = {
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


def rejection(reply: Any) -> RequestFailed:
    """What an answer means with which nobody reckons; of a transaction, the part that failed."""
    if isinstance(reply, list):
        reply = next((part for part in reply if not isinstance(part, _NOT_TO_BLAME)), reply)
    for kind, advice in _REFUSALS.items():
        if isinstance(reply, kind):
            return RequestFailed(advice, "not applied")
    return RequestFailed(f"the server answered {type(reply).__name__}", "unknown")


def explained(error: RequestFailed) -> str:
    """What happened and what to do about it."""
    text = str(error)
    if "connect" not in text or "lost" in text or "closed" in text:
        advice = "whether the request was carried out is not known"
        return f"{text}: {advice}" if error.outcome == "unknown" else text
    hints = [hint for part, hint in _HINTS.items() if part in text]
    default = "are the servers running there, and have they a majority?"
    return f"{text}: {hints[0] if hints else default}"
