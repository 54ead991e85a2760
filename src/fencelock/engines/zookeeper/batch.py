"""Requests that are sent together, and their replies."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

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
    """Replies arrive one by one in the connection's thread. The last one wakes the caller."""

    def __init__(self, requests: Sequence[Any], event: Event) -> None:
        self._requests = requests
        self._event = event
        self._left = len(requests)
        self._withdrawn = False
        self.replies: list[Any] = [None] * len(requests)
        """For each request a value, or the exception that kazoo has for the server's error."""
        self.session: int | None = None
        """The session in which the batch was sent, and answered if it was."""
        self.sent = False
        """Whether the batch may have reached a server."""
        self.failure: Exception | None = None
        """Why the batch was not answered."""

    def sending(self, session: int | None) -> Iterator[tuple[Any, Slot]]:
        """The requests to send now; none if the batch was withdrawn."""
        with _mutex:
            if self._withdrawn:
                return
            self.sent = True
        self.session = session
        for index, request in enumerate(self._requests):
            yield request, Slot(self, index)

    def withdraw(self) -> bool:
        """Keep the batch from being sent. Returns False if it was sent already."""
        with _mutex:
            self._withdrawn = True
            return not self.sent

    def answer(self, index: int, reply: Any) -> None:
        self.replies[index] = reply
        self._left -= 1
        if self._left == 0:
            wake(self._event)

    def fail(self, error: Exception) -> None:
        if self.failure is None:
            self.failure = error
            wake(self._event)


class Slot(NamedTuple):
    """Where kazoo puts the reply to one request."""

    batch: Batch
    place: int

    def set(self, value: Any) -> None:
        self.batch.answer(self.place, value)

    def set_exception(self, error: Exception) -> None:
        if isinstance(error, _CONNECTION_ERRORS):
            self.batch.fail(error)
        else:
            self.batch.answer(self.place, error)
