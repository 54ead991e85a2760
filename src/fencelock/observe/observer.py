"""What an observer is, and what happens if it fails or uses a lock itself."""

from __future__ import annotations

import logging
import sys
import threading
from abc import ABC, abstractmethod
from collections import deque
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from fencelock.observe.events import Event

log = logging.getLogger("fencelock.observe")


class Observer(Protocol):
    """Any callable that takes an event. What it returns is ignored."""

    def __call__(self, event: Event, /) -> object: ...


class Recorder(ABC):
    """A prompt observer of ours. It takes the fields of an event, so that no event has to be made for it."""

    def __call__(self, event: Event, /) -> None:
        """Take an event."""
        names: tuple[str, ...] = event.__match_args__
        self.record(type(event), tuple(getattr(event, each) for each in names))

    @abstractmethod
    def record(self, kind: type[Event], fields: tuple[Any, ...], since: object = None, /) -> None:
        """Take the event `kind(*fields)`. Must not raise, wait, or use a lock."""


class _Busy(threading.local):
    """Whether this thread runs an observer at this moment."""

    now = False


busy = _Busy()
"""Nobody is told of what an observer does itself: that would never end."""

_failed: deque[Observer] = deque(maxlen=100)
"""The last observers that failed. No more, because a program may make a client and observers for each job."""


def complain(observer: Observer) -> None:
    """Log the error that is being handled, but only the first one of each observer.

    What a signal handler may have raised is raised again: the user pressed Ctrl-C, or the program has to end.
    """
    error = sys.exc_info()[1]
    signalled = threading.current_thread() is threading.main_thread()
    if signalled and isinstance(error, KeyboardInterrupt | SystemExit):
        raise error
    if not any(each is observer for each in _failed):
        _failed.append(observer)
        log.exception("the observer %r failed; its next errors are not logged", observer)
