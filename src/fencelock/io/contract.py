"""What the logic may ask of the world it runs in.

All logic is written once, as `async def`. An io decides what `await` means: on asyncio the leaves
really suspend; in a blocking program they block the thread and never suspend, so that one
`send(None)` runs a coroutine to its end; in the simulator they yield to a seeded scheduler.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine
from random import Random
from typing import Any, ClassVar, Protocol, TypeVar

T = TypeVar("T")


class Event(Protocol):
    """A flag to wait for. `set` may be called from any thread."""

    def set(self) -> None: ...
    def clear(self) -> None: ...
    def is_set(self) -> bool: ...
    async def wait(self, timeout: float | None = None) -> bool:
        """Wait until it is set (True) or `timeout` seconds have passed (False)."""


class Task(Protocol):
    """Something that runs in the background."""

    async def join(self) -> None:
        """Wait for its end."""


class IO(ABC):
    """One world. Every context of a client has its own."""

    blocking: ClassVar[bool]
    """Whether awaiting blocks the thread: engines choose their connections by this."""

    random: Random
    """For jitter only; a seeded one makes a simulated run repeatable."""

    @staticmethod
    def place() -> object:
        """Where the caller runs. Callers at different places of one process can't share a context."""
        return None

    @property
    def over(self) -> bool:
        """Whether nothing can run in it any more."""
        return False

    @abstractmethod
    def now(self) -> float:
        """Seconds on a clock that never jumps and goes on while the machine sleeps."""

    @abstractmethod
    def event(self) -> Event:
        """A new flag, not set."""

    @abstractmethod
    def spawn(self, coroutine: Coroutine[Any, Any, None], name: str) -> Task:
        """Run a coroutine in the background: a thread or a task."""

    @abstractmethod
    async def call(self, function: Callable[..., T], *args: Any) -> T:
        """Run a function that may block, without blocking anyone else."""

    @abstractmethod
    async def shield(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine to its end even if the caller is cancelled."""

    @abstractmethod
    def caller(self) -> object:
        """The thread or task that asks. Equal to itself only."""

    @abstractmethod
    def verify(self) -> None:
        """Raise unless this io may be used from here: same process, same event loop."""

    @abstractmethod
    async def close(self) -> None:
        """Give back what `call` needed."""
