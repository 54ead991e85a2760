"""A ticket in good hands: what is known of it, and why it may have ended."""

from __future__ import annotations

from collections.abc import Callable
from math import inf
from typing import Any

from fencelock.core.durations import deadline
from fencelock.core.lease import LeaseState, state_of
from fencelock.core.ticket import ADMITTED, GONE, WAITING, Departure, Standing, Ticket
from fencelock.io.contract import Event

RELEASED = "released"
WITHDRAWN = "withdrawn before it was held"
CLOSED = "its client was closed"
EXPIRED = "its ttl passed without a renewal that the engine confirmed"
EVICTED = (
    "the engine no longer knows it: it expired there, was broken, or the engine lost its memory"
)


class Kept:
    """A ticket that the keeper renews, and all that is known of it."""

    __slots__ = (
        "abandoned",
        "admitted",
        "answered",
        "caller",
        "deadline",
        "depth",
        "due",
        "event",
        "fence",
        "flexible",
        "heard",
        "on_lost",
        "place",
        "quiet",
        "reason",
        "recheck_at",
        "suspended",
        "ticket",
        "unanswered",
        "wheel",
    )

    def __init__(self, ticket: Ticket, caller: object, flexible: bool = False) -> None:
        self.ticket = ticket
        self.caller = caller
        self.flexible = flexible
        """Whether nobody asked for its ttl: a shorter one will do."""
        self.fence = 0
        self.abandoned = False
        self.place = GONE
        self.admitted = False
        self.suspended = False
        self.unanswered = 0
        self.reason: str | None = None
        self.deadline = self.heard = self.answered = -inf
        self.recheck_at = self.due = inf
        self.wheel: float | None = None
        self.depth = 1
        self.quiet = False
        """Whether its loss is nobody's concern but ours."""
        self.event: Event | None = None
        self.on_lost: tuple[Callable[[], Any], ...] = ()

    def learn(self, standing: Standing, sent: float, now: float) -> str | None:
        """Take in an engine's answer to a request that was sent at `sent`.

        Says why the lease is lost, if it is: it is too late, or the ticket is gone, or a failover
        has taken back what admitted it, or a late copy of an old request has put it into the queue
        again after it was taken out.
        """
        place = standing.place
        if self.admitted:
            if now >= self.deadline:
                return EXPIRED
            if place is not ADMITTED or standing.fence != self.fence:
                # Two requests that were under way together may have been carried out in either order.
                return EVICTED if sent >= self.answered else None
        if sent < self.heard:
            return None  # something newer is known already
        self.heard, self.answered = sent, now
        self.place = place
        if place is ADMITTED or place is WAITING:
            self.fence = standing.fence
            if place is ADMITTED:
                self.abandoned = standing.abandoned
            self.deadline = deadline(sent, self.ticket.ttl)
            self.recheck_at = sent + standing.recheck
            self.suspended = False
        return None

    def shorten(self, longest: float) -> bool:
        """Make do with the longest ttl that the engine can keep; False if another one was asked for."""
        if not self.flexible or self.ticket.ttl <= longest:
            return False
        self.ticket = self.ticket._replace(ttl=longest)
        return True

    def departure(self, reason: str | None) -> Departure:
        """How this ticket departs, if it has to go for this reason."""
        if not self.admitted or reason == WITHDRAWN:
            return Departure.WITHDRAWN
        return Departure.RELEASED if reason in (RELEASED, CLOSED) else Departure.LOST

    def state(self, now: float) -> LeaseState:
        if self.reason == RELEASED:
            return LeaseState.RELEASED
        return state_of(now, self.deadline, suspended=self.suspended, lost=self.reason is not None)
