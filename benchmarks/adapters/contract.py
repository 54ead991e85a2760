"""What the benchmark needs from a lock."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import ClassVar, Self

TTL_SECONDS = 30


class Turns(ABC):
    """One contender for one name, in one process. It is made in the process that uses it."""

    label: ClassVar[str]
    ttl: ClassVar[float] = TTL_SECONDS
    """The ttl, for locks that have one, in seconds."""

    @abstractmethod
    def __init__(self, url: str, name: str, seat: int = 0, seats: int = 1) -> None:
        """Connect. `seat` of `seats` is for adapters that pass something around in a ring."""

    def warm_up(self) -> None:  # noqa: B027 - most have nothing to do
        """Called before the turns begin, in the thread that takes them: some libraries connect per thread."""

    @abstractmethod
    def acquire(self) -> None: ...

    @abstractmethod
    def release(self) -> None: ...

    def close(self) -> None:  # noqa: B027 - some have nothing to close
        """Close the connection."""

    @classmethod
    def crowd(cls, url: str, name: str, taken: Sequence[int], seats: int) -> Sequence[Turns]:
        """Several contenders in one process, on some of the seats. They share a client, if there is one."""
        return [cls(url, name, seat, seats) for seat in taken]

    @classmethod  # noqa: B027 - only those with a token need it
    def kick_off(cls, url: str, name: str) -> None:
        """Called once, after all contenders have connected and before they begin."""


class AsyncTurns(ABC):
    """One contender in an event loop."""

    label: ClassVar[str]
    ttl: ClassVar[float] = TTL_SECONDS

    @classmethod
    @abstractmethod
    async def connect(cls, url: str, name: str) -> Self: ...

    async def warm_up(self) -> None:  # noqa: B027 - as above
        """Called before the turns begin: some libraries connect at their first use."""

    @abstractmethod
    async def acquire(self) -> None: ...

    @abstractmethod
    async def release(self) -> None: ...

    @abstractmethod
    async def close(self) -> None: ...

    @classmethod
    async def crowd(cls, url: str, name: str, size: int) -> Sequence[AsyncTurns]:
        """Several contenders in one event loop. They share a client, if there is one."""
        return [await cls.connect(url, name) for _ in range(size)]

    @classmethod  # noqa: B027 - as above
    def kick_off(cls, url: str, name: str) -> None: ...


AnyTurns = Turns | AsyncTurns


class Keeper(ABC):
    """Holds many leases on Redis in one process, and renews them."""

    label: ClassVar[str]

    @abstractmethod
    def __init__(self, url: str, ttl: int) -> None: ...

    @abstractmethod
    def hold(self, names: Sequence[str]) -> None:
        """Acquire all leases, and begin to renew them."""

    @abstractmethod
    def lost(self) -> int:
        """How many leases are not held any more."""
