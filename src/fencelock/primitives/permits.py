"""Semaphores: whether those who wait for each other mean the same number of permits."""

from __future__ import annotations

import logging
import math

from fencelock.core.ticket import Inspection, Share
from fencelock.engines.contract import Engine
from fencelock.primitives.kept import Kept
from fencelock.primitives.waiting import LEAST_TIMEOUT, Attend

log = logging.getLogger("fencelock")


def compare_permits(engine: Engine, name: str, share: Share) -> Attend:
    """Say so, once, if those ahead have another number of permits in mind."""
    compared = False

    async def attend(kept: Kept) -> float:
        nonlocal compared
        if not compared:
            compared = True
            seen = await engine.inspect(name, limit=0, timeout=LEAST_TIMEOUT)
            if words := disagreement(share, seen):
                log.warning("%r%s", name, words)
        return math.inf

    return attend


def disagreement(ours: Share, seen: Inspection) -> str:
    """What to add to a message if those who hold have another number of permits in mind, or nothing."""
    theirs = seen.holders[0].share if seen.holders else ours
    if theirs.group == ours.group or 1 in (theirs.permits, ours.permits):
        return ""
    return (
        f": they use it with {theirs.permits} permits, and we with {ours.permits}. "
        "These don't hold it together: who comes later waits until the others are done"
    )
