"""What a benchmark needs of a lock."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar, Self


class Turns(ABC):
    """One contender for one name, in one process. Made in the process that uses it."""

    label: ClassVar[str]

    @abstractmethod
    def __init__(self, url: str, name: str, seat: int = 0, seats: int = 1) -> None:
        """Connect. `seat` of `seats` is for those that pass something around in a ring."""

    @abstractmethod
    def acquire(self) -> None: ...

    @abstractmethod
    def release(self) -> None: ...

    def close(self) -> None:  # noqa: B027 - some have nothing to close
        """Give back the connection."""

    @classmethod  # noqa: B027 - only those with a token need it
    def kick_off(cls, url: str, name: str) -> None:
        """Called once, after all contenders have connected and before they begin."""


class AsyncTurns(ABC):
    """One contender in an event loop."""

    label: ClassVar[str]

    @classmethod
    @abstractmethod
    async def connect(cls, url: str, name: str) -> Self: ...

    @abstractmethod
    async def acquire(self) -> None: ...

    @abstractmethod
    async def release(self) -> None: ...

    @abstractmethod
    async def close(self) -> None: ...
