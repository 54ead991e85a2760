"""Expiry by observation, for engines without a clock: a waiter counts the ttl of the ticket ahead of it.

A holder renews by changing its ticket. It counts its lease from *before* it sent the renewal. A waiter counts
from the moment it *saw* the change, which is later. If the waiter has seen no change for a whole ttl, the
holder's lease has ended before that, on any two clocks that run at the same rate. Then the waiter may take
the ticket out. Clocks of different machines are never compared, so a clock that jumps does no harm.
"""

from __future__ import annotations

_DRIFT = 0.001
"""The part of a ttl by which two clocks may disagree about its length."""


def time_left(ttl: float, since: float, now: float) -> float:
    """Seconds until a ticket that has not changed since a moment may be taken out."""
    return since + ttl * (1 + _DRIFT) - now


class ObservedTickets:
    """When each of the tickets ahead was first seen in its present version."""

    def __init__(self) -> None:
        self._seen: dict[str, tuple[int, float]] = {}  # by key: its version, and since when

    def left(
        self, key: str, version: int, ttl: float, now: float, since: float | None = None
    ) -> float:
        """Seconds until a ticket that has this version now may be taken out. At 0 or less it may.

        `since`: a moment from which on the ticket is known to be unchanged, if the caller knows one.
        """
        seen = self._seen.get(key)
        if seen is None or seen[0] != version:
            seen = self._seen[key] = version, now if since is None else since
        return time_left(ttl, seen[1], now)

    def forget(self, key: str) -> None:
        """Drop a ticket that is gone, or that no ticket of this client waits behind any more."""
        self._seen.pop(key, None)
