"""What a client decides about a lock before it makes one."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from fencelock.core.durations import Duration
from fencelock.core.ticket import Owner

if TYPE_CHECKING:  # most locks have no guard, so importing these would be in vain
    from fencelock.guards.lease_like import AsyncBarrier, Barrier

UNGUARDED: Any = object()
"""In the place of a guard: there is none, and nobody has said that there need not be one."""


class LockOptions(NamedTuple):
    """The options of one lock. The client has filled in its defaults and checked the ttl and the owner."""

    owner: Owner
    ttl: float | None = None
    """Seconds that a lease lives unless it is renewed. None: what the engine suggests at the time."""
    timeout: Duration | None = None
    """Seconds that a caller waits. None: without a limit."""
    reentrant: bool = False
    on_lost: Callable[[Any], Any] | Literal["cancel"] | None = None
    """Is called with the lease when that is lost. "cancel" is for asyncio only."""
    guard: Barrier | AsyncBarrier | None = None
    renew: bool = True
    """Whether the keeper renews the lease. If not, its ttl is all that it gets."""
    max_hold: float | None = None
    """Seconds after which the lease is lost, however well it is renewed."""
    warn_after: float | None = None
    """Seconds after which a lease that is still held is worth a warning."""
