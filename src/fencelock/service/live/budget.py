"""How much of the engine's time the pages may use: 1 %, however many pages are open."""

from __future__ import annotations

import math
from collections import deque

SHARE = 0.01
"""The part of the engine's time for the pages: one half for listing names, one half for looking at them."""

BURST = 1.0
"""Seconds of the engine's time that each half may use at once after a rest: a page that opens should fill
soon."""

_LATELY = 60.0
"""Seconds over which the load is reckoned."""


class _Median:
    """The median of the last values, which a stall of this machine hardly changes."""

    def __init__(self) -> None:
        self._values: deque[float] = deque(maxlen=30)

    def take(self, value: float) -> float:
        """Learn a value, and return the median."""
        self._values.append(value)
        return sorted(self._values)[(len(self._values) - 1) // 2]


class Budget:
    """Allows requests as long as the engine's time for them lasts.

    The engine's own time can't be measured from here. But of requests that are sent together, only the first
    one pays for the way to the engine and back, so the time of the others is nearly the engine's alone. It
    includes what our own process takes for them. So the true share is smaller.
    """

    def __init__(self, now: float) -> None:
        self._for_looks = self._for_lists = BURST
        self._filled = now
        self._way = math.inf
        """The shortest time in which one look was answered."""
        self._each = 0.001
        """What one look takes of the engine's time, as far as we know."""
        self._looks = _Median()
        self._lists = _Median()
        self._load = 0.0
        """Seconds of the engine's time that were used lately."""

    def fill(self, now: float) -> None:
        """Time has passed."""
        passed, self._filled = now - self._filled, now
        self._for_looks = min(BURST, self._for_looks + passed * SHARE / 2)
        self._for_lists = min(BURST, self._for_lists + passed * SHARE / 2)
        self._load *= math.exp(-passed / _LATELY)

    @property
    def looks(self) -> int:
        """How many names may be looked at now."""
        return max(0, int(self._for_looks / self._each))

    @property
    def is_ample(self) -> bool:
        """Whether there is enough for looks that are not urgent."""
        return self._for_looks > BURST / 2

    @property
    def may_list(self) -> bool:
        """Whether a listing may go on."""
        return self._for_lists > 0.0

    @property
    def may_list_again(self) -> bool:
        """Whether a new listing may begin. The rest is for one that turns out to be long."""
        return self._for_lists > BURST / 2

    @property
    def load(self) -> float:
        """The share of the engine's time that was used lately."""
        return self._load / _LATELY

    def looked(self, count: int, seconds: float) -> None:
        """So many looks that were sent together were answered within so many seconds."""
        more = seconds - self._way
        self._way = min(self._way, seconds)
        if count > 1 and more > 0.0:
            self._each = self._looks.take(more / (count - 1))
        cost = count * self._each
        self._for_looks -= cost
        self._load += cost

    def listed(self, seconds: float) -> None:
        """A part of the names was listed within so many seconds."""
        own = seconds - self._way if seconds > self._way else seconds
        # Parts differ: some have more names of ours. But what takes far longer has waited for something else.
        cost = min(own, 5 * self._lists.take(own))
        self._for_lists -= cost
        self._load += cost
