"""What observers are told of a claim."""

from __future__ import annotations

from itertools import count

from fencelock.observe.events import (
    Asked,
    Failed,
    FenceFell,
    GaveUp,
    Granted,
    HeldLong,
    LossReason,
    Lost,
    Queued,
    Refused,
    Released,
    Renewed,
    Resumed,
    Suspended,
    TimedOut,
)
from fencelock.observe.logging import write as log_event
from fencelock.primitives.claim import (
    DETACHED,
    DROPPED,
    EVICTED,
    EXPIRED,
    LOOP_ENDED,
    OVERHELD,
    RAN_OUT,
    RELEASED,
    WITHDRAWN,
    Claim,
)

_LOSSES: dict[str, LossReason] = {
    EXPIRED: "expired",
    EVICTED: "evicted",
    DROPPED: "dropped",
    LOOP_ENDED: "loop ended",
    OVERHELD: "held too long",
    RAN_OUT: "ran out",
}

_numbers = count(1)


class Sighting:
    """Tells the observers of one claim: of each thing once, and of nothing after the end.

    A claim has one only if there were observers when the caller asked for the lock. So an observer always
    hears the whole story of a ticket. It does not keep the claim: that would be a circle of references.
    """

    __slots__ = ("_asked_at", "_audience", "_granted_at", "_newest", "_over", "_since", "about")

    def __init__(self, claim: Claim, timeout: float, now: float) -> None:
        self._audience = audience = claim.context.audience
        self._since = audience.listeners
        name, _, _, owner, share, _ = claim.ticket
        kind = share.kind if share.group else "lock"
        self.about = (name, claim.context.engine.label_of(name), kind, owner, next(_numbers))
        self._asked_at = now
        self._granted_at: float | None = None
        self._over = False
        # Only what was known before the request is sent counts: a slow answer must not look like a fall.
        self._newest = audience.fences.get(name, 0)
        if Asked not in audience.ignored:
            audience.tell(Asked, (*self.about, timeout), self._since)

    # --- until it is held

    def queued(self) -> None:
        """The name is not free, and the ticket waits."""
        self._audience.tell(Queued, self.about, self._since)

    def granted(self, claim: Claim, now: float) -> None:
        """The caller has the lease."""
        audience, about, fence, newest = self._audience, self.about, claim.fence, self._newest
        self._granted_at = now
        details = now - self._asked_at, fence, claim.abandoned
        audience.tell(Granted, about + details, self._since)
        if fence <= newest:
            audience.report(FenceFell, (*about[:2], fence, newest))
        elif newest:  # the name is remembered already
            audience.fences[about[0]] = fence
        else:
            audience.saw_fence(about[0], fence)

    def attached(self, claim: Claim, now: float) -> None:
        """The caller has a lease that was acquired elsewhere. Its fence may be known here already."""
        self._newest = 0
        self.granted(claim, now)

    def not_granted(self, claim: Claim, timeout: float) -> None:
        """The name was not free in time."""
        self._ended_early(claim, TimedOut if timeout else Refused)

    def cut_short(self, claim: Claim, error: BaseException) -> None:
        """An error or an interruption ended the attempt."""
        if isinstance(error, Exception):
            self._ended_early(claim, Failed, type(error).__name__)
        else:
            self._ended_early(claim, GaveUp)

    def _ended_early(
        self, claim: Claim, kind: type[TimedOut | Refused | Failed | GaveUp], *details: str
    ) -> None:
        if not self._over and self._granted_at is None:
            self._over = True
            waited = claim.context.io.now() - self._asked_at
            self._audience.tell(kind, (*self.about, waited, *details), self._since)

    # --- while it is held

    def renewed(self, claim: Claim, margin: float, resumed: bool) -> None:
        """The engine confirmed a renewal when `margin` seconds were left. `resumed`: the last one failed."""
        if self._over or self._granted_at is None:
            return
        self._audience.tell(Renewed, (*self.about, claim.fence, margin), self._since)
        if resumed:
            self._audience.tell(Resumed, (*self.about, claim.fence), self._since)

    def suspended(self, claim: Claim, remaining: float) -> None:
        """The engine did not answer a renewal."""
        if not self._over and self._granted_at is not None:
            self._audience.tell(Suspended, (*self.about, claim.fence, remaining), self._since)

    def held_long(self, claim: Claim, held_for: float, stack: str) -> None:
        """The lease is held for longer than its `warn_after`."""
        fields = (*self.about, claim.fence, held_for, stack)
        self._audience.report(HeldLong, fields, self._since)

    def ended(self, claim: Claim) -> None:
        """The claim has ended. If it was held, tell how: released or lost."""
        reason, since = claim.reason, self._granted_at
        if self._over or since is None or reason is None:
            return
        self._over = True
        held_for = claim.context.io.now() - since
        if reason in _LOSSES:
            lost = (*self.about, claim.fence, held_for, _LOSSES[reason])
            self._audience.tell(Lost, lost, self._since)
        else:
            closed = reason not in (RELEASED, WITHDRAWN, DETACHED)
            self._audience.tell(Released, (*self.about, claim.fence, held_for, closed), self._since)


def report_held_long(claim: Claim, held_for: float, stack: str) -> None:
    """A lease is held for longer than its `warn_after`: log it, and tell the observers that know of it."""
    if claim.reason is not None:  # released meanwhile
        return
    sighting = claim.sighting
    if sighting is not None:
        sighting.held_long(claim, held_for, stack)
        return
    name, _, _, owner, share, _ = claim.ticket
    engine = claim.context.engine.label_of(name)
    log_event(HeldLong(name, engine, share.kind, owner, 0, claim.fence, held_for, stack))
