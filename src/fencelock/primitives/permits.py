"""Semaphores: do holders and waiters mean the same number of permits?"""

from __future__ import annotations

import logging
import math

from fencelock.core.ticket import Inspection, Share
from fencelock.primitives.claim import Claim
from fencelock.primitives.waiting import MIN_TIMEOUT, Attend

log = logging.getLogger("fencelock.lease")


def compare_permits() -> Attend:
    """Warn once if the tickets ahead were made with another number of permits."""
    compared = False

    async def attend(claim: Claim) -> float:
        nonlocal compared
        if not compared:
            compared = True
            name = claim.ticket.name
            seen = await claim.context.engine.inspect(name, limit=0, timeout=MIN_TIMEOUT)
            if words := disagreement(claim.ticket.share, seen):
                log.warning("%r%s", name, words)
        return math.inf

    return attend


def disagreement(ours: Share, seen: Inspection) -> str:
    """What to add to a message if the holders use another number of permits. Empty if they don't."""
    theirs = seen.holders[0].share if seen.holders else ours
    if theirs.group == ours.group or 1 in (theirs.permits, ours.permits):
        return ""
    return (
        f": the holder uses it with {theirs.permits} permits, this program with {ours.permits}. "
        "Such leases are never held together: the later ones wait until the earlier ones are released"
    )
