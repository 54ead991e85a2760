"""Requests that are sent together, and their answers."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any

from kazoo.exceptions import AuthFailedError, ConnectionLoss, SessionExpiredError, SessionMovedError

from fencelock.io.contract import Event

_BROKEN = (AuthFailedError, ConnectionLoss, SessionExpiredError, SessionMovedError)
"""What says more about the connection than about the request."""

_mutex = threading.Lock()  # only for a moment, when a batch is sent or withdrawn


def wake(event: Event) -> None:
    """Set an event from the connection's thread."""
    with suppress(RuntimeError):  # its event loop may be closed this very moment
        event.set()


class Batch:
    """Answers arrive one by one in the connection's thread; whoever waits is woken once, by the last."""

    __slots__ = (
        "_event",
        "_left",
        "_requests",
        "_withdrawn",
        "failure",
        "replies",
        "sent",
        "session",
    )

    def __init__(self, requests: Sequence[Any], event: Event) -> None:
        self._requests = requests
        self._event = event
        self._left = len(requests)
        self._withdrawn = False
        self.replies: list[Any] = [None] * len(requests)
        """What each was answered: a value, or the exception that ZooKeeper has for it."""
        self.session: int | None = None
        """The session in which it was sent, and answered if it was."""
        self.sent = False
        """Whether it may have reached a server."""
        self.failure: Exception | None = None
        """Why it was not answered."""

    def sending(self, session: int | None) -> Iterator[tuple[Any, Slot]]:
        """The requests to be sent now; none if nobody waits for them any more."""
        with _mutex:
            if self._withdrawn:
                return
            self.sent = True
        self.session = session
        for index, request in enumerate(self._requests):
            yield request, Slot(self, index)

    def withdraw(self) -> bool:
        """Have it not sent any more; False if it was sent already."""
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


class Slot:
    """Where kazoo puts the answer to one request."""

    __slots__ = ("_batch", "_index")

    def __init__(self, batch: Batch, index: int) -> None:
        self._batch = batch
        self._index = index

    def set(self, value: Any) -> None:
        self._batch.answer(self._index, value)

    def set_exception(self, error: Exception) -> None:
        if isinstance(error, _BROKEN):
            self._batch.fail(error)
        else:
            self._batch.answer(self._index, error)
