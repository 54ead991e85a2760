"""A name that nobody else asks for: one statement takes it, one renews it, and one gives it back.

Each is a transaction by itself, or part of one, and changes nothing if there is anything to think about:
then `queue.py` knows what to do.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import lru_cache
from typing import Any

from fencelock.core.ticket import ADMITTED, Owner, Standing, Ticket
from fencelock.engines.sqlite.statements import GIVE, SQL, TAKE

Execute = Callable[..., Any]

_packed = lru_cache(maxsize=16)(Owner.pack)


def take(execute: Execute, ticket: Ticket, now: int) -> Standing | None:
    """Hold a name that is free; None: ask `Queues.enter`."""
    name, id, ttl, owner, (group, weight, permits), floor = ticket
    fence = time.time_ns() // 1000
    if fence <= floor:
        return None
    expires = now + int(ttl * 1e6)
    row = name, fence, id, _packed(owner), now, expires, group or None, weight, permits
    taken = execute(TAKE, row).connection.changes()
    return Standing(ADMITTED, fence) if taken else None


def prolong(execute: Execute, ticket: Ticket, now: int) -> int:
    """Renew a ticket that nobody disputes, and say its fence; 0: `Queues` has to look."""
    expires = now + int(ticket.ttl * 1e6)
    row = ticket.name, ticket.id, _packed(ticket.owner), now, expires
    found: list[tuple[int]] = execute(SQL["prolong"], row).fetchall()
    return found[0][0] if found else 0


def give_back(execute: Execute, ticket: Ticket, now: int) -> bool:
    """Release a name that nobody has asked for since it was taken; False: ask `Queues.leave`."""
    given: int = execute(GIVE, (ticket.name, ticket.id, now)).connection.changes()
    return given > 0
