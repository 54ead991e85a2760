"""Leases that are worth a warning if they are held for too long."""

from __future__ import annotations

import math
from typing import NamedTuple

from fencelock.primitives.call_site import CallSite
from fencelock.primitives.claim import Claim


class SlowHolder(NamedTuple):
    """A lease, since when it is held, and where it was acquired."""

    claim: Claim
    since: float
    stack: list[CallSite]


class SlowHolders:
    """The held leases with a `warn_after`. The caller holds the context's mutex."""

    def __init__(self) -> None:
        # One row per `warn_after`, each in order of time: the lease that was acquired first is due first.
        self.rows: dict[float, dict[str, SlowHolder]] = {}

    def add(self, warn_after: float, holder: SlowHolder) -> float:
        """Warn when this lease is held for longer than `warn_after` seconds. Returns when that is."""
        self.rows.setdefault(warn_after, {})[holder.claim.ticket.id] = holder
        return holder.since + warn_after

    def remove(self, claim: Claim) -> None:
        """The lease has ended."""
        for warn_after, row in list(self.rows.items()):
            if row.pop(claim.ticket.id, None) is not None and not row:
                del self.rows[warn_after]

    def due(self, now: float) -> tuple[list[SlowHolder], float]:
        """Take out the leases that are held for too long, and say when the next one will be."""
        found: list[SlowHolder] = []
        next_at = math.inf
        for warn_after, row in list(self.rows.items()):
            for holder in list(row.values()):
                if now < holder.since + warn_after:
                    next_at = min(next_at, holder.since + warn_after)
                    break
                found.append(holder)
        for holder in found:
            self.remove(holder.claim)
        return found, next_at
