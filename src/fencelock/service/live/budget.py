"""How much of the engine's time the pages may use: 1 %, however many pages are open."""

from __future__ import annotations

import math

SHARE = 0.01
"""The part of the engine's time for the pages. Half of it is for listing names, half for looking at them."""

BURST = 1.0
"""Seconds of the engine's time that may be used at once after a rest: a page that opens should fill soon."""


class Budget:
    """Allows looks at names, as long as the engine's time for them lasts.

    The engine's own time can't be measured from here. But of requests that are sent together, only the first
    one pays for the way to the engine and back, so the time of the others is nearly the engine's alone. It
    includes what our own process takes for them. So the true share is smaller.
    """

    def __init__(self, now: float) -> None:
        self._credit = BURST
        self._filled = now
        self._way = math.inf
        """The shortest time in which one request was answered."""
        self._each = 0.001
        """What one request takes of the engine's time, as far as we know."""
        self._spent = 0.0
        self._spent_before = 0.0
        self._counted_since = now

    def affordable(self, now: float, most: int) -> int:
        """How many names may be looked at now."""
        self._credit = min(BURST, self._credit + (now - self._filled) * SHARE / 2)
        self._filled = now
        if now - self._counted_since > 60.0:
            self._spent_before, self._spent = self._spent, 0.0
            self._counted_since = now
        return max(0, min(most, int(self._credit / self._each)))

    def spend(self, count: int, seconds: float) -> None:
        """So many requests that were sent together were answered within so many seconds."""
        if count == 1:
            self._way = min(self._way, seconds)
        more = seconds - min(self._way, seconds)
        if count > 1:
            self._each += (more / (count - 1) - self._each) / 4
        cost = max(more, count * self._each)
        self._credit -= cost
        self._spent += cost

    def listed(self, seconds: float) -> float:
        """All names were listed. Returns the pause until the next listing."""
        cost = max(0.0, seconds - self._way) if self._way < math.inf else seconds
        self._spent += cost
        return cost / (SHARE / 2)

    def load(self, now: float) -> float:
        """The share of the engine's time that was used lately."""
        return (self._spent_before + self._spent) / (60.0 + now - self._counted_since)
