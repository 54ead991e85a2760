"""Guards for storage in which the lock itself stands: write only while its own ticket is there.

They need no fence of their own and no read barrier: nobody else holds the lock as long as the ticket stands.
"""

from __future__ import annotations

from typing import Any, TypeVar

from fencelock.core.errors import StaleFence, Unsupported

E = TypeVar("E")

TIMEOUT = 5.0
"""Seconds that a write may take."""


def engine_of(lease: Any, kind: type[E], scheme: str) -> E:
    """The engine on which a lease was acquired, which must be of this kind."""
    engine = getattr(getattr(lease, "_context", None), "engine", None)
    if not isinstance(engine, kind):
        raise Unsupported(
            f"this guard writes in one step with a look at the lock, so that needs a lease of a "
            f"client for {scheme}://…, on the same servers"
        )
    lease._context.io.verify()
    return engine


def accept(lease: Any, newest: int | None) -> None:
    """Take in what the engine answered."""
    if newest is not None:
        raise StaleFence(lease.name, given=lease.fence, newest=newest)
