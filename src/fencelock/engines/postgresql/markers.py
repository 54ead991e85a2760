"""Wake-ups in a crowded queue: a waiter waits in the server, for a lock of the ticket ahead.

NOTIFY wakes every session of the database that listens, to wake one of them. In a queue of 32 clients that is
most of the work of a turn. So a ticket that has to wait gets a *marker*: an advisory lock of the connection
on which it joined. The next ticket waits for that lock, and its release wakes that waiter and nobody else.

A statement that waits has a snapshot, and vacuum must keep what that can see. So each statement waits for a
moment only, and a ticket waits in this way for a second at most: in a crowded queue of short turns that is
enough. Elsewhere NOTIFY wakes it: see `listener.py`.

A marker takes a connection. So only some tickets of a client get one, and not for long. A ticket without a
marker is woken by NOTIFY, and so is a ticket behind it. Behind a pooler there are no markers.
"""

from __future__ import annotations

import threading
from math import inf
from typing import NamedTuple

from fencelock.core.ticket import ALONE, Departure, Place, Standing, Ticket
from fencelock.engines.failure import RequestFailed
from fencelock.engines.postgresql.requests import RowRequests
from fencelock.engines.postgresql.wire import Wire
from fencelock.engines.sql.pool import Pool
from fencelock.engines.sql.requests import pushed_standing, standing_of
from fencelock.io.contract import IO

_WAIT = 0.1
"""The most seconds that a statement waits for the ticket ahead."""

_ANSWER = 2.0
"""Seconds in which its answer must follow."""

_UNMARK = 0.25
"""Seconds in which a marker must be given up. A keeper that renews leases waits for this."""

_WAIT_AGAIN, _LOOK = "wait", "look"
"""Answers of a statement that waited in vain."""

_KEEP = 1.0
"""Seconds after which a ticket that is still there loses its marker: its queue is slow."""


class _Marked(NamedTuple):
    """A ticket with a marker."""

    wire: Wire | None
    """The connection that has the marker. None while a request uses it."""
    since: float
    waits: bool = True
    """Whether it can wait for the ticket ahead."""


class Markers:
    """The tickets of this client that have a marker."""

    def __init__(self, pool: Pool[Wire], requests: RowRequests, io: IO, most: int) -> None:
        self._pool = pool
        self._requests = requests
        self._io = io
        self._most = most
        self._marked: dict[str, _Marked] = {}
        self._mutex = threading.Lock()  # never held across an await, so it serves every io
        self._crowded_at = -_KEEP

    def __contains__(self, id: str) -> bool:
        return id in self._marked

    def crowded(self) -> bool:
        """Whether a ticket of this client had to wait just now. If not, most names are free."""
        return self._io.now() - self._crowded_at < _KEEP

    def can_have(self, ticket: Ticket) -> bool:
        """Whether this ticket can get a marker."""
        return (
            len(self._marked) < self._most
            and ticket.share == ALONE
            and not ticket.floor
            and ticket.id not in self._marked
        )

    def waits(self, id: str) -> bool:
        """Whether this ticket can wait for the ticket ahead."""
        marked = self._marked.get(id)
        return marked is not None and marked.waits

    def ends(self, id: str) -> float:
        """When this ticket loses its marker if it still waits then. Infinite if it has none."""
        marked = self._marked.get(id)
        return inf if marked is None else marked.since + _KEEP

    async def enter(self, ticket: Ticket, timeout: float) -> Standing | None:
        """Join the queue. None if the ticket can't get a marker after all."""
        now = self._io.now()
        with self._mutex:
            if not self.can_have(ticket):
                return None
            self._marked[ticket.id] = _Marked(None, now)  # it counts: many may come at once
        wire: Wire | None = None
        waiting = clean = False
        try:
            wire = await self._pool.take(timeout)
            if not wire.prepares:  # a pooler is in between
                self._most, clean = 0, True
                return None
            (answer,) = await wire.call(self._requests.enter_marked(ticket), timeout)
            standing = standing_of(answer)
            waiting = standing.place is Place.WAITING
            clean = not waiting
            if waiting:
                self._crowded_at = self._io.now()
            return standing
        finally:
            self._put_back(ticket.id, wire, _Marked(wire, now) if waiting else None, clean)

    async def wait(self, ticket: Ticket, until: float) -> Standing | None:
        """Wait for the ticket ahead. None: the queue is slow, or has changed."""
        with self._mutex:
            marked = self._marked.get(ticket.id)
            if marked is None or marked.wire is None:
                return None
            wire, since = marked.wire, marked.since
            self._marked[ticket.id] = _Marked(None, since)
        until, answer, whole = min(until, since + _KEEP), _WAIT_AGAIN, False
        try:
            while answer == _WAIT_AGAIN and (left := until - self._io.now()) > 0:
                request = self._requests.wait_marked(ticket, min(left, _WAIT))
                (answer,) = await wire.call(request, _WAIT + _ANSWER)
            whole = True
            return None if answer in (_WAIT_AGAIN, _LOOK) else pushed_standing(answer)
        finally:
            self._put_back(ticket.id, wire, _Marked(wire, since, False) if whole else None)

    async def leave(self, ticket: Ticket, departure: Departure, timeout: float) -> bool | None:
        """Take a ticket out of its queue. None if it has no marker: then this is not the way."""
        with self._mutex:
            marked = self._marked.pop(ticket.id, None)
        if marked is None or marked.wire is None:
            return None
        clean = False
        try:
            request = self._requests.leave_marked(ticket, departure)
            (answer,) = await marked.wire.call(request, timeout)
            clean = True
            return answer == "1"
        except RequestFailed as error:
            if error.outcome == "not applied":
                return None
            raise
        finally:
            self._put_back(ticket.id, marked.wire, None, clean)

    async def thin_out(self) -> None:
        """Take the markers of tickets that have been there for long. The tickets stay."""
        before = self._io.now() - _KEEP
        while (wire := self._pop_older(before)) is not None:
            clean = False
            try:
                await wire.call(self._requests.unmark(), _UNMARK)
                clean = True
            except RequestFailed:
                pass  # the connection goes, and the marker with it
            finally:
                self._put_back("", wire, None, clean)

    def _pop_older(self, moment: float) -> Wire | None:
        with self._mutex:
            for id, marked in self._marked.items():
                if marked.since <= moment and marked.wire is not None:  # else a request uses it
                    del self._marked[id]
                    return marked.wire
        return None

    def close(self) -> None:
        """Give up all markers. A waiter comes back in a moment."""
        self._most = 0
        with self._mutex:
            wires = [marked.wire for marked in self._marked.values()]
            self._marked.clear()
        for wire in wires:
            self._put_back("", wire, None)

    def _put_back(
        self, id: str, wire: Wire | None, marked: _Marked | None, clean: bool = False
    ) -> None:
        """Keep the connection with its marker. Or give it back: then, unless it is clean, it is closed, and
        its marker is gone."""
        with self._mutex:
            # The ticket may have left while a request used its connection. Then it needs no marker any more.
            if marked is not None and id in self._marked:
                self._marked[id] = marked
                return
            self._marked.pop(id, None)
        if wire is not None:
            if not clean and not wire.broken:
                wire.close()
            self._pool.give(wire)
