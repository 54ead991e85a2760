"""Claims that end by themselves, although their holders go on: `renew=False` and `max_hold`."""

from __future__ import annotations

from math import inf
from typing import Any

from fencelock.core.ticket import Standing
from fencelock.primitives.claim import EXPIRED, HELD, OVERHELD, RAN_OUT, Claim
from fencelock.primitives.schedule import RENEW_AT

_FRESH = 0.1
"""Seconds. An answer that is younger gives a fixed ttl nearly whole, so it is not renewed for that."""


class BoundedClaim(Claim):
    """A claim whose lease does not live for as long as it could be renewed.

    The bounds count from the moment when the caller has the lease. Until then it is an ordinary claim, so
    that it keeps its place in the queue.
    """

    __slots__ = ("_ends_at", "_owed", "_renews")

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self._ends_at = inf
        """Its deadline never goes beyond this."""
        self._renews = True
        self._owed = False

    def bound(self, now: float, *, renews: bool, max_hold: float | None) -> None:
        """The caller is about to have the lease. From now on it lives no longer than this."""
        self._ends_at = inf if max_hold is None else now + max_hold
        self._renews = renews
        fresh = min(_FRESH, self.ticket.ttl * RENEW_AT / 10)
        self._owed = not renews and now - self.sent_at > fresh
        self.deadline = min(self.deadline, self._ends_at)

    def answered(
        self, standing: Standing, sent: float, now: float, joining: bool = False
    ) -> str | None:
        """As `Claim.answered`, within the bounds."""
        reason = super().answered(standing, sent, now, joining)
        if self.state is HELD and self.sent_at == sent:
            self._owed = False
        self.deadline = min(self.deadline, self._ends_at)
        return reason

    @property
    def owed(self) -> bool:
        """Whether it has a fixed ttl, and did not begin with all of it."""
        return self._owed

    @property
    def final(self) -> bool:
        """Whether it is held, and no renewal by the keeper moves its deadline."""
        over = self.deadline >= self._ends_at or not (self._renews or self._owed)
        return over and self.state is HELD

    @property
    def overdue(self) -> str:
        """Why it is lost if its deadline has passed."""
        if self.deadline >= self._ends_at:
            return OVERHELD
        return EXPIRED if self._renews or self._owed else RAN_OUT
