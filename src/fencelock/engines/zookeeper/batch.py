"""Requests that are sent together, and their replies."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from kazoo.exceptions import AuthFailedError, ConnectionLoss, SessionExpiredError, SessionMovedError

from fencelock.io.contract import Event

_CONNECTION_ERRORS = (AuthFailedError, ConnectionLoss, SessionExpiredError, SessionMovedError)
"""Errors of the connection, not of a single request."""

_mutex = threading.Lock()  # held for a moment, while a batch is marked as sent or withdrawn


def wake(event: Event) -> None:
    """Set an event from the connection's thread."""
    with suppress(RuntimeError):  # its event loop may be closed this very moment
        event.set()


class Batch:
    """The replies arrive in order, in the connection's thread. The last one wakes the caller."""

    def __init__(self, requests: Sequence[Any], event: Event) -> None:
        self._requests = requests
        self._event = event
        self._withdrawn = False
        self.replies: list[Any] = []
        """For each request a value, or the exception that kazoo has for the server's error."""
        self.session: int | None = None
        """The session in which the batch was sent, and answered if it was."""
        self.sent = False
        """Whether the batch may have reached a server."""
        self.failure: Exception | None = None
        """Why the batch was not answered."""

    def to_send(self, session: int | None) -> Sequence[Any]:
        """The requests, which count as sent from now on; none if the batch was withdrawn."""
        with _mutex:
            if self._withdrawn:
                return ()
            self.sent = True
        self.session = session
        return self._requests

    def withdraw(self) -> bool:
        """Keep the batch from being sent. Returns False if it was sent already."""
        with _mutex:
            self._withdrawn = True
            return not self.sent

    def fail(self, error: Exception) -> None:
        """Give the batch up."""
        if self.failure is None:
            self.failure = error
            wake(self._event)

    # --- called by kazoo, once for each request

    def set(self, reply: Any) -> None:
        self.replies.append(reply)
        if len(self.replies) == len(self._requests):
            wake(self._event)

    def set_exception(self, error: Exception) -> None:
        if isinstance(error, _CONNECTION_ERRORS):
            self.fail(error)
        else:
            self.set(error)
