"""The states of a lease."""

from __future__ import annotations

from enum import Enum


class LeaseState(Enum):
    """What a holder may rely on."""

    HELD = "held"
    SUSPENDED = "suspended"
    """The engine did not answer the last renewal. The lease is still held until its deadline."""
    LOST = "lost"
    """The deadline has passed, or the engine says that the ticket is gone."""
    RELEASED = "released"
    """The holder has released it."""


def state_of(now: float, deadline: float, *, suspended: bool, lost: bool) -> LeaseState:
    """The state of a lease that was not released. Past the deadline it is lost, whatever is known."""
    if lost or now >= deadline:
        return LeaseState.LOST
    return LeaseState.SUSPENDED if suspended else LeaseState.HELD
