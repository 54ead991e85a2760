"""Guards for storage that also keeps the lock: they write only while the lease's own ticket is there.

They need no stored fence and no read barrier: while the ticket is there, nobody else holds the lock.
"""

from __future__ import annotations

from typing import Any, Protocol

from fencelock.core.errors import Unsupported
from fencelock.core.ticket import Ticket
from fencelock.guards.lease_like import refused

_TIMEOUT = 5.0
"""Seconds that a write may take."""


class _Engine(Protocol):
    async def write_held(
        self, ticket: Ticket, fence: int, change: Any, /, *, timeout: float
    ) -> int | None: ...


async def write_held(lease: Any, kind: type[_Engine], scheme: str, change: Any) -> None:
    """Apply a change on the lease's engine, in one transaction with a look at the ticket."""
    context = getattr(lease, "_context", None)
    engine = getattr(context, "bare_engine", None)
    if context is None or not isinstance(engine, kind):
        raise Unsupported(
            "this guard checks the lock and writes in one transaction: it needs a lease of a client "
            f"for {scheme}://…, on the same servers"
        )
    context.io.verify()
    newest = await engine.write_held(lease._claim.ticket, lease.fence, change, timeout=_TIMEOUT)
    if newest is not None:
        raise refused(scheme, lease, newest)
