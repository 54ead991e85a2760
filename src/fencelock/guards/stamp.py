"""What a guard compares: the fence, and whose it is."""

from __future__ import annotations

from hashlib import blake2b
from typing import Any, NamedTuple, Protocol


class Stamp(Protocol):
    """What a lease is for a guard."""

    @property
    def name(self) -> str: ...
    @property
    def fence(self) -> int: ...
    @property
    def id(self) -> str: ...


class Claim(NamedTuple):
    """A lease as others may know it: without its id, and as good for a guard."""

    name: str
    fence: int
    holder: str

    @property
    def id(self) -> str:
        """Nobody but the holder knows it."""
        return ""


class Barrier(Protocol):
    """A guard that can act by itself, as `lock(…, guard=…)` needs it."""

    def raise_fence(self, lease: Stamp) -> None:
        """Refuse all older holders from now on; `StaleFence` if this one is older itself."""


class AsyncBarrier(Protocol):
    """The same for asyncio."""

    async def raise_fence(self, lease: Stamp) -> Any:
        """Refuse all older holders from now on; `StaleFence` if this one is older itself."""


def holder_of(stamp: Stamp) -> str:
    """Tells holders with the same fence apart. Not the id itself: with that one could release the lock."""
    if isinstance(stamp, Claim):
        return stamp.holder
    return blake2b(stamp.id.encode(), digest_size=16).hexdigest()
