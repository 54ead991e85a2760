"""What a torture run is to do."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

Primitive = Literal["lock", "semaphore", "rwlock", "election"]

PREFIX = "fencelock-torture"
"""All names of a run begin with it, unless the user chooses another prefix."""


@dataclass(frozen=True)
class Plan:
    """The options of a run."""

    run: str
    """A random name: it is in all names of the run."""
    storage: str
    """The URL of the storage with the numbers."""
    seed: int
    seconds: float = 60.0
    primitive: Primitive = "lock"
    permits: int = 3
    ttl: float = 2.0
    processes: int = 6
    rate: float = 60.0
    """The most turns per second, of all processes together."""
    faults: Sequence[str] = ()
    """The kinds of faults; empty: all that are possible."""
    bare: bool = True
    """Whether to keep numbers without a guard, too: what would be lost there?"""
    prefix: str = PREFIX
    break_with: str = ""
    """The user's own command for a fault of a server, and the one that heals it."""
    heal_with: str = ""

    @property
    def names(self) -> list[str]:
        """The names that the workers lock."""
        return [f"{self.prefix}:{self.run}:{number}" for number in range(2)]
