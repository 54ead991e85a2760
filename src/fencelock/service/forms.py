"""What people and other languages send to `/v1/locks/…`, and what they get back.

These types check the requests, and the OpenAPI document is made from them. Unknown fields are ignored.
"""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

from fencelock.core.durations import DEFAULT_TTL, MAX_TTL, MIN_TTL
from fencelock.engines.contract import Guarantee
from fencelock.engines.http.wire import FenceText, Name, WireContender

MAX_WAIT = 50.0
"""Most load balancers give up a request after a minute."""

KEY = "Idempotency-Key"

Key = Annotated[str, Meta(min_length=16, max_length=200, pattern=r"^[!-~]+$")]
"""At least 16 characters: a stranger that guesses it can release the lock."""

Label = Annotated[str, Meta(max_length=200)]
Ttl = Annotated[float, Meta(ge=MIN_TTL, le=MAX_TTL)]


class Acquire(Struct, frozen=True):
    """Hold the lock, or wait for it in the queue."""

    ttl: Ttl = DEFAULT_TTL
    """Seconds that the lease lives unless it is renewed."""
    wait: Annotated[float, Meta(ge=0, le=MAX_WAIT)] = 0.0
    """Seconds that this request may wait. 0: only if the lock is free."""
    label: Label = ""
    """Says in listings who you are. Default: the name of your token."""
    read: bool = False
    """Share the lock with other readers."""
    permits: Annotated[int, Meta(ge=1, lt=2**31)] | None = None
    """Share the lock with so many holders in all: one permit of a semaphore."""
    require: Guarantee = "efficiency"
    """With "correctness": refuse, if the engine behind the service promises less."""


class RenewLease(Struct, frozen=True):
    """Extend the lease, or keep the place in the queue."""

    ttl: Ttl = DEFAULT_TTL
    label: Label = ""
    """That of the acquire: on some engines, a renewal says again who you are."""


class Release(Struct, frozen=True):
    """Release the lock, or leave the queue."""


class Show(Struct, frozen=True):
    """Look at one lock."""

    waiters: Annotated[int, Meta(ge=0, le=1000)] = 10
    """How many waiters to list."""


class List(Struct, frozen=True):
    """Look for locks."""

    pattern: Annotated[str, Meta(max_length=512)] = "*"
    """A shell pattern: `*`, `?`, `[abc]`."""
    limit: Annotated[int, Meta(ge=1, le=10_000)] = 1000


class Break(Struct, frozen=True):
    """Take the lock away from the holder that was seen."""

    fence: FenceText
    """The fence of that holder. If another one holds the lock by now, nothing happens."""


class CheckFence(Struct, frozen=True):
    """Ask whether a fence is the fence of a holder now."""

    name: Name
    fence: FenceText


class Diagnose(Struct, frozen=True):
    """Ask what a lock on the engine is good for."""

    timeout: Annotated[float, Meta(gt=0, le=MAX_WAIT)] = 10.0
    """Seconds that this request may wait for an examination."""


# --- answers


class Held(Struct, frozen=True):
    """You hold the lock."""

    name: str
    fence: FenceText
    """For storage that refuses stale holders. The header `Fencelock-Fence` has it, too."""
    expires_in: float
    """Seconds that the lease certainly lives, from the moment when the service sent this answer. If the
    answer may have been on its way for long, confirm it with `renew`."""
    abandoned: bool
    """The last holder did not release the lock. Its work may be half done."""


class Queued(Struct, frozen=True):
    """You are in the queue. Ask again with the same key."""

    name: str
    expires_in: float
    """Seconds for which your place is kept."""


class Released(Struct, frozen=True):
    """You hold the lock no more."""

    name: str


class Listing(Struct, frozen=True):
    """The names that are held or waited for, sorted."""

    names: list[str]
    more: bool
    """Whether there are more than `limit`."""


class Broken(Struct, frozen=True):
    """The lock was taken away from these holders."""

    name: str
    holders: list[WireContender]


class Holds(Struct, frozen=True):
    """The fence is the fence of a holder. A moment later that may be over."""

    name: str
    fence: FenceText
    expires_in: float
