"""When the cluster had reached which revision, as far as this client has heard.

Each change of a ticket has a revision, and each answer and event says which revision has been reached. So a
whole row of dead tickets expires together, though each waiter watches only the ticket ahead of it.
"""

from __future__ import annotations

import threading

from fencelock.core.change_times import ChangeTimes


class Revisions:
    """The progress of a cluster. Answers and events come in different threads."""

    def __init__(self) -> None:
        self._mutex = threading.Lock()
        self._progress = ChangeTimes()

    def reached(self, revision: int, now: float) -> None:
        """Take in that the cluster has reached a revision."""
        with self._mutex:
            # If it is lower than one before, this server lags behind, or the cluster was restored.
            self._progress.fell_to(revision)
            self._progress.reached(revision, now)

    def known_since(self, revision: int, now: float) -> float:
        """The first moment at which a revision had been reached for sure; now, if it is news."""
        with self._mutex:
            return self._progress.known_since(revision, now)
