"""When the cluster had reached which revision, as far as this client has heard.

Each change of a ticket has a revision, and each answer and event says which revision has been reached. So a
waiter that sees a ticket for the first time knows how long it was not renewed for sure: since it first heard
of the ticket's revision, or of a later one. That is how a whole row of dead tickets expires together, though
each waiter watches only the ticket ahead of it.
"""

from __future__ import annotations

import threading
from bisect import bisect_left

_MOST = 512
"""Moments that are remembered."""

_PRECISE = 1 / 16
"""How precise the past has to be when there are too many: the part of a moment's age."""


class Revisions:
    """Moments, and the revisions that had been reached then."""

    def __init__(self) -> None:
        self._mutex = threading.Lock()
        self._known: list[tuple[int, float]] = []

    def reached(self, revision: int, now: float) -> None:
        """Take in that the cluster has reached a revision."""
        with self._mutex:
            known = self._known
            # Either this server lags behind, or the cluster was restored from a backup and counts anew.
            while known and known[-1][0] > revision:
                known.pop()
            if not known or known[-1][0] < revision:
                known.append((revision, now))
                if len(known) > _MOST:
                    self._known = _thinned(known)

    def since(self, revision: int) -> float | None:
        """The first moment at which a revision had been reached for sure; None if it is news."""
        with self._mutex:
            index = bisect_left(self._known, (revision,))
            return self._known[index][1] if index < len(self._known) else None


def _thinned(known: list[tuple[int, float]]) -> list[tuple[int, float]]:
    """Without those between whose neighbours little time has passed, compared with how long ago that was."""
    now = newer = known[-1][1]
    kept = [known[-1]]
    for index in range(len(known) - 2, 0, -1):
        if newer - known[index - 1][1] > (now - newer) * _PRECISE:
            kept.append(known[index])
            newer = known[index][1]
    kept.append(known[0])
    kept.reverse()
    return kept
