"""Expiry by observation, for engines that have no clock to ask: who watches a ticket counts its ttl.

A holder renews by changing its ticket, and counts its lease from *before* it sent the renewal. Whoever
waits behind it counts from when it *saw* the change, which is later. So whoever has seen no change for
a whole ttl may take the ticket out: its holder's lease has ended before, on any two clocks that tick
alike. No clocks are compared between machines, and none can jump.
"""

from __future__ import annotations

from typing import NamedTuple

_DRIFT = 0.001
"""The part of a ttl by which two clocks may disagree about its length."""


def left_of(ttl: float, since: float, now: float) -> float:
    """Seconds until a ticket may be taken out that is known not to have changed since a moment."""
    return since + ttl * (1 + _DRIFT) - now


class _Sighting(NamedTuple):
    version: int
    since: float


class Sightings:
    """When each of the tickets ahead was first seen in its present version."""

    def __init__(self) -> None:
        self._seen: dict[str, _Sighting] = {}

    def left(
        self, key: str, version: int, ttl: float, now: float, since: float | None = None
    ) -> float:
        """Seconds until a ticket seen now in this version may be taken out; 0 or less: it may.

        `since`: it is known by other means that it has not changed from then on.
        """
        seen = self._seen.get(key)
        if seen is None or seen.version != version:
            seen = self._seen[key] = _Sighting(version, now if since is None else since)
        return left_of(ttl, seen.since, now)

    def forget(self, key: str) -> None:
        """It is gone, or nobody here waits behind it any more."""
        self._seen.pop(key, None)
