"""The read-write lock: any number of readers, or one writer, in order of arrival."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar

from fencelock.core.ticket import ALONE, READING, Share
from fencelock.primitives.lock import BaseLock

K = TypeVar("K", bound=BaseLock[Any])


class ReadWriteLock(Generic[K]):
    """Two locks on one name. No ticket overtakes a waiting one, so neither readers nor writers starve."""

    def __init__(self, name: str, make: Callable[[Share], K]) -> None:
        self.name = name
        self._make = make

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name!r}>"

    def read(self) -> K:
        """A lock that is held together with other readers."""
        return self._make(READING)

    def write(self) -> K:
        """A lock that is held alone. `downgrade()` of its lease turns the writer into a reader."""
        return self._make(ALONE)
