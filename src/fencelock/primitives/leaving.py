"""How tickets that were held leave their queues: together, and again if the first request failed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from fencelock.core.errors import EngineError
from fencelock.core.ticket import Ticket
from fencelock.primitives.sweeper import REQUEST_TIMEOUT

if TYPE_CHECKING:
    from fencelock.primitives.context import Context
    from fencelock.primitives.lease import BaseLease


async def leave_together(leases: Sequence[BaseLease]) -> dict[BaseLease, bool]:
    """Ask the engine once about all leases that one request can release. Returns its answers.

    `BaseLease._release` takes the answer in, and releases each of the other leases by itself.
    """
    together = [lease for lease in leases if lease._can_leave()]
    if len(together) < 2:
        return {}
    context = together[0]._context
    context.io.verify()
    until = context.io.now() + REQUEST_TIMEOUT
    for lease in together:
        lease._start_leaving()
    tickets = [lease._claim.ticket for lease in together]
    try:
        there = await context.engine.leave_all(tickets, timeout=REQUEST_TIMEOUT)
    except EngineError as error:
        there = await leave_again(context, tickets, error, until)
    return dict(zip(together, there, strict=True))


async def leave_again(
    context: Context, tickets: Sequence[Ticket], first: EngineError, until: float
) -> list[bool]:
    """Ask once more, unless the first request hung.

    If the first one did arrive, a ticket is not there any more; and it was ours until then, because the
    deadline had not passed.
    """
    left = until - context.io.now()
    if left <= 0:
        raise first
    try:
        there = await context.engine.leave_all(tickets, timeout=left)
    except EngineError as second:
        if first.outcome == "unknown":
            second.outcome = "unknown"
        raise
    return [each or first.outcome == "unknown" for each in there]
