"""A name that no other ticket asks for: one statement takes it, one renews it, and one gives it back.

Each statement is a transaction by itself, or part of one. It changes nothing if the name is not simply free
or simply ours. Then `operations.py` handles the request.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import apsw

from fencelock.core.ticket import ADMITTED, Owner, Standing, Ticket
from fencelock.engines.sqlite.statements import SQL

Execute = Callable[..., Any]

# Looked up once: every uncontended lock needs both.
_TAKE, _GIVE_BACK = SQL["take"], SQL["give_back"]

pack_owner = lru_cache(maxsize=16)(Owner.pack)


def take(execute: Execute, ticket: Ticket, now: int) -> Standing | None:
    """Hold a name that is free. Returns None if `Operations.enter` must look, or if the file is busy."""
    name, id, ttl, owner, (group, weight, permits), floor = ticket
    if group:
        ttl = ticket.share.lasts or ttl
    fence = time.time_ns() // 1000
    if fence <= floor:
        return None
    expires = now + int(ttl * 1e6)
    row = name, fence, id, pack_owner(owner), now, expires, group or None, weight, permits
    try:
        taken = execute(_TAKE, row).connection.changes()
    except apsw.BusyError:
        return None
    # `tuple.__new__` avoids the constructor of named tuples, which is written in Python.
    return tuple.__new__(Standing, (ADMITTED, fence, False, math.inf)) if taken else None


def renew(execute: Execute, ticket: Ticket, now: int) -> int:
    """Renew an uncontended ticket and return its fence. Returns 0 if `Operations` must look."""
    expires = now + int(ticket.ttl * 1e6)
    row = ticket.name, ticket.id, pack_owner(ticket.owner), now, expires
    found: list[tuple[int]] = execute(SQL["renew_uncontended"], row).fetchall()
    return found[0][0] if found else 0


def give_back(execute: Execute, ticket: Ticket, now: int) -> bool:
    """Release an uncontended ticket. Returns False if `Operations.leave` must look, or the file is busy."""
    try:
        given: int = execute(_GIVE_BACK, (ticket.name, ticket.id, now)).connection.changes()
    except apsw.BusyError:
        return False
    return given > 0
