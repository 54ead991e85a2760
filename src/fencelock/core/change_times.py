"""When changes happened that this client did not watch, for engines that number all changes in one order.

Such an engine says with each answer the number of its latest change. Every change up to that number had
happened when the answer came. So a client that reads a ticket much later, with the number of its last change,
knows a moment since which the ticket is unchanged. It counts the ttl from that moment, as in
`observed_expiry.py`.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right

_GRAIN = 0.05
"""Seconds by which a moment may be remembered too late."""

_BLUR = 1 / 16
"""The part of its age by which an old moment may be remembered too late."""

_MAX_MOMENTS = 1000
"""The number of moments that are remembered. Half of them would last for weeks."""


class ChangeTimes:
    """The engine's change numbers, and when each was known to be reached. For one caller at a time."""

    def __init__(self) -> None:
        self._numbers: list[int] = []
        self._moments: list[float] = []

    def reached(self, number: int, now: float) -> None:
        """Record that the engine's latest change has this number, or a higher one."""
        numbers, moments = self._numbers, self._moments
        if numbers and number <= numbers[-1]:
            return
        if len(moments) > 1 and now - moments[-2] < _GRAIN:
            numbers[-1], moments[-1] = number, max(now, moments[-1])
            return
        numbers.append(number)
        moments.append(max(now, moments[-1]) if moments else now)
        if len(numbers) > _MAX_MOMENTS:
            self._thin_out()

    def fell_to(self, number: int) -> None:
        """Forget all higher numbers: a backup was restored, and the engine uses them again."""
        place = bisect_right(self._numbers, number)
        del self._numbers[place:], self._moments[place:]

    def known_since(self, number: int, now: float) -> float:
        """The earliest moment at which this change is known to have happened. `now` if none is recorded."""
        place = bisect_left(self._numbers, number)
        return self._moments[place] if place < len(self._moments) else now

    def _thin_out(self) -> None:
        """Forget moments that lie close to a later one. Their changes then count as known a bit later."""
        moments = self._moments
        kept = [len(moments) - 1]
        for place in range(len(moments) - 2, 0, -1):
            later = moments[kept[-1]]
            if later - moments[place - 1] > _BLUR * (moments[-1] - later):
                kept.append(place)
        kept.append(0)
        kept.reverse()
        self._numbers = [self._numbers[place] for place in kept]
        self._moments = [moments[place] for place in kept]
