"""When changes happened that nobody here has watched, for engines that number all changes in one order.

Such an engine says with each answer how far it has come. Every change up to that number had happened when
the answer was there. So a client that reads much later which change a ticket had last knows from when on it
has had none, and can count its ttl from then, as in `sightings.py`.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right

_GRAIN = 0.05
"""Seconds by which a moment may be remembered too late."""

_BLUR = 1 / 16
"""The part of its age by which a moment that is long past may be remembered too late."""

_REMEMBERED = 1000
"""Moments that are remembered; half of them would last for weeks."""


class Progress:
    """How far an engine had come, and when that was known. For one caller at a time."""

    def __init__(self) -> None:
        self._numbers: list[int] = []
        self._moments: list[float] = []

    def reached(self, number: int, now: float) -> None:
        """The engine has come as far as this."""
        numbers, moments = self._numbers, self._moments
        if numbers and number <= numbers[-1]:
            return
        if len(moments) > 1 and now - moments[-2] < _GRAIN:
            numbers[-1], moments[-1] = number, max(now, moments[-1])
            return
        numbers.append(number)
        moments.append(max(now, moments[-1]) if moments else now)
        if len(numbers) > _REMEMBERED:
            self._thin_out()

    def fell_to(self, number: int) -> None:
        """The engine may count anew, after a backup was restored: forget all that lies beyond."""
        place = bisect_right(self._numbers, number)
        del self._numbers[place:], self._moments[place:]

    def known_since(self, number: int, now: float) -> float:
        """The moment from which on a change is known to have happened; now, if only now."""
        place = bisect_left(self._numbers, number)
        return self._moments[place] if place < len(self._moments) else now

    def _thin_out(self) -> None:
        """Forget moments whose neighbours say nearly the same: changes then count as known a bit later."""
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
