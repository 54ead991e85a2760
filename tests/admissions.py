"""When tickets were admitted, by the engine's clock: put together from many looks with `inspect`."""

from __future__ import annotations

from fencelock.core.ticket import Inspection


class Admissions:
    """The admissions of one name. A fence is the engine's time at which its ticket joined, in µs: so from a
    waiter, the moment of a look is known."""

    def __init__(self) -> None:
        self._at: dict[int, float] = {}

    def look(self, seen: Inspection) -> bool:
        """Take in one look, unless nobody waits."""
        if not seen.waiters:
            return False
        # A fence may be a little larger than the time, if two tickets came in the same microsecond.
        now = min(waiter.fence / 1e6 + waiter.waiting_for for waiter in seen.waiters)
        for holder in seen.holders:
            self._at.setdefault(holder.fence, now - holder.held_for)
        return True

    def __len__(self) -> int:
        return len(self._at)

    @property
    def span(self) -> float:
        """The seconds from the first admission to the last."""
        return max(self._at.values()) - min(self._at.values())

    def most_within(self, seconds: float) -> int:
        """The largest number of admissions in any half-open span of so many seconds."""
        times = sorted(self._at.values())
        return max(sum(start <= time < start + seconds - 1e-4 for time in times) for start in times)
