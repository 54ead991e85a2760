"""The states of a lease: held, suspended or lost while it lasts, released in the end."""

from __future__ import annotations

from enum import Enum


class LeaseState(Enum):
    """What a holder may believe."""

    HELD = "held"
    SUSPENDED = "suspended"
    """The engine did not answer the last renewal; the deadline has not passed, so it is still ours."""
    LOST = "lost"
    """Past the deadline, or gone at the engine."""
    RELEASED = "released"
    """Given back by its holder."""


def state_of(now: float, deadline: float, *, suspended: bool, lost: bool) -> LeaseState:
    """The state that follows from the clock and from what is known; the clock always wins."""
    if lost or now >= deadline:
        return LeaseState.LOST
    return LeaseState.SUSPENDED if suspended else LeaseState.HELD
