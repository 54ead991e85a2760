"""When the tickets of other clients expire. etcd has no clock to ask, so each client counts by itself.

A ticket's ttl counts from when this client first saw its last change: see `core/observed_expiry.py`. Each
change has a revision, and each answer and event says which revision the cluster has reached. So a client may
know that a ticket has not changed since long before the client saw it: see `core/change_times.py`. That is
why a whole row of dead tickets expires together, though each waiter watches only the ticket ahead of it.
"""

from __future__ import annotations

import threading
from collections import OrderedDict

from fencelock.core.change_times import ChangeTimes
from fencelock.core.observed_expiry import ObservedTickets
from fencelock.io.contract import IO

_MAX_SEEN = 4_000
"""How many things this client remembers. Others count from when their revision was reached."""


class Expiry:
    """Counts the time of everything that this client sees in etcd. For any thread."""

    def __init__(self, io: IO) -> None:
        self._io = io
        self._mutex = threading.Lock()  # answers and events come in different threads
        self._changes = ChangeTimes()
        self._observed = ObservedTickets()
        self._seen: OrderedDict[str, None] = OrderedDict()

    def reached(self, revision: int) -> None:
        """Take in that the cluster has reached a revision."""
        with self._mutex:
            # If it is lower than one before, this server lags behind, or the cluster was restored.
            self._changes.fell_to(revision)
            self._changes.reached(revision, self._io.now())

    def left(self, id: str, version: int, ttl: float) -> float:
        """Seconds until a thing expires that was seen just now, and last changed at revision `version`."""
        with self._mutex:
            self._seen[id] = None
            self._seen.move_to_end(id)
            if len(self._seen) > _MAX_SEEN:
                self._observed.forget(self._seen.popitem(last=False)[0])
            now = self._io.now()
            since = self._changes.known_since(version, now)
            left = self._observed.left(id, version, ttl, now, since)
        return min(max(left, 0.0), ttl)
