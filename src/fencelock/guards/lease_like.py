"""What a guard compares: a fence, and the holder that it belongs to."""

from __future__ import annotations

from collections.abc import Coroutine
from hashlib import blake2b
from typing import Any, NamedTuple, Protocol

from fencelock.core.errors import StaleFence
from fencelock.observe.audience import process


class LeaseLike(Protocol):
    """What a guard reads of a lease."""

    @property
    def name(self) -> str: ...
    @property
    def fence(self) -> int: ...
    @property
    def id(self) -> str: ...


class RemoteLease(NamedTuple):
    """A lease without its secret id, as another process may know it. Guards accept it like a lease."""

    name: str
    fence: int
    holder: str

    @property
    def id(self) -> str:
        """Empty: only the holder knows the id."""
        return ""


class Barrier(Protocol):
    """A guard that `lock(…, guard=…)` can use: it needs no connection from the caller."""

    def raise_fence(self, lease: LeaseLike) -> None:
        """Refuse all older holders from now on; `StaleFence` if this lease is older itself."""


class AsyncBarrier(Protocol):
    """`Barrier` for asyncio."""

    def raise_fence(self, lease: LeaseLike) -> Coroutine[Any, Any, Any]:
        """Refuse all older holders from now on; `StaleFence` if this lease is older itself."""


def refused(guard: str, lease: LeaseLike, newest: int) -> StaleFence:
    """The error to raise because the storage has seen a newer fence. Tells the observers of it.

    A guard knows no client. So these are the observers of the lease's client, if it is a lease of this
    process, and those of the whole process. `guard` says what kind of guard it is.
    """
    audience = getattr(getattr(lease, "_context", None), "audience", process)
    if audience.listening:
        from fencelock.observe import events  # few programs need it

        audience.tell(events.StaleFence, (lease.name, guard, lease.fence, newest))
    return StaleFence(lease.name, given=lease.fence, newest=newest)


def holder_of(stamp: LeaseLike) -> str:
    """Tells two holders with the same fence apart.

    A digest, because the id itself is a secret: a process that knows it can release the lock.
    """
    if isinstance(stamp, RemoteLease):
        return stamp.holder
    return holder_of_id(stamp.id)


def holder_of_id(id: str) -> str:
    """The holder whose lease has this id."""
    return blake2b(id.encode(), digest_size=16).hexdigest()
