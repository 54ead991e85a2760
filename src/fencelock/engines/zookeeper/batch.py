"""Requests that are sent together, and how their replies are read.

A reply is a value or one of kazoo's exceptions; the reply to a transaction is a list of these.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from kazoo.exceptions import (
    AuthFailedError,
    ConnectionLoss,
    InvalidACLError,
    NoAuthError,
    NodeExistsError,
    NoNodeError,
    RolledBackError,
    RuntimeInconsistency,
    SessionExpiredError,
    SessionMovedError,
    UnimplementedError,
)

from fencelock.engines.failure import RequestFailed
from fencelock.io.contract import Event

_CONNECTION_ERRORS = (AuthFailedError, ConnectionLoss, SessionExpiredError, SessionMovedError)
"""Errors of the connection, not of a single request."""

_ROLLED_BACK = (RolledBackError, RuntimeInconsistency)
"""What a transaction answers for the parts that did not fail themselves."""

_REFUSALS = {
    NoAuthError: (
        "the server does not allow it: the nodes belong to another user; check the user and the "
        "password in the URL, zookeeper://user:password@host, or use another path"
    ),
    InvalidACLError: (
        "the server does not accept the user as the owner of nodes: put a user and a password "
        "in the URL, zookeeper://user:password@host"
    ),
    UnimplementedError: "the server is too old: Fencelock needs ZooKeeper 3.5.3 or newer",
}


def wake(event: Event) -> None:
    """Set an event from the connection's thread."""
    with suppress(RuntimeError):  # its event loop may be closed this very moment
        event.set()


class Batch:
    """The replies arrive in order, in the connection's thread. The last one wakes the caller."""

    def __init__(self, requests: Sequence[Any], event: Event) -> None:
        self.requests = requests
        self._event = event
        self.replies: list[Any] = []
        """For each request a value, or the exception that kazoo has for the server's error."""
        self.session: int | None = None
        """The session in which the batch was sent, and answered if it was."""
        self.sent = False
        """Whether the batch may have reached a server."""
        self.failure: Exception | None = None
        """Why the batch was not answered."""

    def fail(self, error: Exception) -> None:
        """Give the batch up."""
        if self.failure is None:
            self.failure = error
            wake(self._event)

    # --- called by kazoo, once for each request

    def set(self, reply: Any) -> None:
        self.replies.append(reply)
        if len(self.replies) == len(self.requests):
            wake(self._event)

    def set_exception(self, error: Exception) -> None:
        if isinstance(error, _CONNECTION_ERRORS):
            self.fail(error)
        else:
            self.set(error)


def gone(reply: Any) -> bool:
    """Whether a node that was asked for is not there."""
    return isinstance(reply, NoNodeError)


def done(reply: Any) -> bool:
    """Whether a deletion or all parts of a transaction were carried out."""
    if isinstance(reply, list):
        return not any(isinstance(part, Exception) for part in reply)
    return reply is True


def missing(reply: Any, part: int = 0) -> bool:
    """Whether a transaction failed because the node of this part is not there. Mostly that is the ticket."""
    return isinstance(reply, list) and gone(reply[part])


def existed(reply: Any, part: int = 0) -> bool:
    """Whether a node was not created, alone or as this part of a transaction, because it is there already."""
    return isinstance(reply[part] if isinstance(reply, list) else reply, NodeExistsError)


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
