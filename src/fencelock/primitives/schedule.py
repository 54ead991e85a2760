"""When which ticket is due for renewal."""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right, insort
from collections import OrderedDict
from collections.abc import Iterable
from operator import attrgetter, itemgetter
from typing import NamedTuple

from fencelock.primitives.claim import HELD, Claim
from fencelock.primitives.sweeper import REQUEST_TIMEOUT

RENEW_AT = 1 / 3
"""The part of its ttl after which a ticket is renewed: two more tries fit before it expires."""

_SLACK = RENEW_AT / 10
"""The part of its ttl by which a renewal may be early, to go along with others in one request."""

_BATCH = 1_000
"""Tickets per renewal request: bounds how long one request keeps an engine busy."""

_MIN_TIMEOUT = 0.05
"""Minimum timeout of a renewal, in seconds: one lease that is about to end must not spoil the request for
a thousand others."""


class Survey(NamedTuple):
    """What the keeper has to do now."""

    batch: list[Claim]
    """Renew these."""
    timeout: float
    """How long that request may take."""
    pressing: list[Claim]
    """These may expire while it is under way."""
    wake_at: float
    """When to look again, if there is nothing to renew."""
    expired: list[Claim]
    """The deadline of these has passed."""
    ended: list[Claim]
    """These have ended, but the thread that ended them was interrupted before it removed them."""


Row = OrderedDict[str, "_Entry"]


class _Entry:
    """A claim, when it is due, and the row in which it stands."""

    __slots__ = ("claim", "due", "row")

    def __init__(self, claim: Claim, due: float, row: Row | _Final) -> None:
        self.claim = claim
        self.due = due
        self.row = row


_due = attrgetter("due")


class _Final:
    """Claims that are not renewed any more, in order of their deadlines."""

    def __init__(self) -> None:
        self._line: list[tuple[float, str]] = []
        self._entries: dict[str, _Entry] = {}

    def __setitem__(self, id: str, entry: _Entry) -> None:
        self._entries[id] = entry
        insort(self._line, (entry.due, id))

    def pop(self, id: str, _: None = None) -> None:
        # The thread that was to put it here, or to take it away, may have been interrupted halfway.
        entry = self._entries.get(id)
        if entry is not None:
            place = bisect_left(self._line, (entry.due, id))
            if self._line[place : place + 1] == [(entry.due, id)]:
                del self._line[place]
            del self._entries[id]

    def until(self, moment: float) -> list[Claim]:
        """The claims that were to end by this moment."""
        end = bisect_right(self._line, moment, key=itemgetter(0))
        return [self._entries[id].claim for _, id in self._line[:end]]

    def next_after(self, moment: float) -> float:
        """When the next claim ends after this moment."""
        end = bisect_right(self._line, moment, key=itemgetter(0))
        return self._line[end][0] if end < len(self._line) else math.inf


class Schedule:
    """All tickets of a client that are renewed. The caller holds the context's mutex."""

    def __init__(self) -> None:
        # Most locks are released before their first renewal: their claims never get an entry. The context
        # adds them here and removes them itself, which saves the hot path two calls.
        self.new: dict[str, Claim] = {}
        self.entries: dict[str, _Entry] = {}
        # One row per ttl, each in order of due time: with one ttl, the ticket renewed last is due last.
        self._rows: dict[float, Row] = {}
        # Tickets whose renewal failed, or that are out of order for another reason.
        self._unordered: Row = OrderedDict()
        self._final = _Final()
        self._sorted_until = -math.inf
        """Tickets in a row were renewed, or were new, before this moment."""
        self.shortest_ttl = math.inf
        """The shortest ttl among the tickets that came since the last survey."""

    def __len__(self) -> int:
        return len(self.new) + len(self.entries)

    def __contains__(self, claim: Claim) -> bool:
        id = claim.ticket.id
        return id in self.new or id in self.entries

    def every(self) -> list[Claim]:
        """All claims."""
        return [*self.new.values(), *(entry.claim for entry in self.entries.values())]

    def add(self, claim: Claim) -> float:
        """Renew this ticket from now on. Returns when it is due."""
        id = claim.ticket.id
        if id in self.entries:
            entry = self.entries[id]
            # It waited, and is held now. If renewals failed meanwhile, it is due at its deadline at the
            # latest.
            entry.due = min(entry.due, claim.deadline)
            return entry.due
        ttl = claim.ticket.ttl
        self.new[id] = claim
        if ttl < self.shortest_ttl:
            self.shortest_ttl = ttl
        return claim.sent_at + ttl * RENEW_AT

    def remove(self, claim: Claim) -> None:
        """Renew it no more."""
        id = claim.ticket.id
        if id in self.new:
            del self.new[id]
        elif (entry := self.entries.pop(id, None)) is not None:
            entry.row.pop(id, None)

    def renewed(self, claim: Claim, sent: float) -> None:
        """The engine answered a renewal that was sent at `sent`."""
        self._sorted_until = sent
        ttl = claim.ticket.ttl
        # If the answer was not taken in, the ticket is due at once. If the ticket asked by itself meanwhile,
        # it is due later than tickets of the same request that come behind it.
        in_order = claim.sent_at == sent
        row = self._row(ttl) if in_order else self._unordered
        self._place(claim, claim.sent_at + ttl * RENEW_AT, row)

    def postpone(self, claim: Claim, due: float) -> None:
        """The renewal failed: try again at `due`, and no later than the deadline of a held lease."""
        if claim in self:
            due = min(due, claim.deadline) if claim.state is HELD else due
            self._place(claim, due, self._unordered)

    def hasten(self, claim: Claim, ttl: float, now: float) -> float:
        """The ttl is about to change: renew it soon enough for both. Returns when it is due."""
        interval = ttl * RENEW_AT
        self.shortest_ttl = min(self.shortest_ttl, ttl)
        if claim not in self:
            return math.inf
        entry = self.entries.get(claim.ticket.id)
        due = claim.sent_at + claim.ticket.ttl * RENEW_AT if entry is None else entry.due
        return self._place(claim, min(due, now + interval), self._unordered)

    def settle(self, claim: Claim, now: float) -> float:
        """The bounds or the ttl of this claim have changed. Returns when it is due, if that is news."""
        if claim not in self:  # it is about to be released
            return math.inf
        entry = self.entries.get(claim.ticket.id)
        if claim.final or claim.owed or (entry is not None and entry.row is self._final):
            return self._place(claim, now, self._unordered)
        return math.inf

    def survey(self, now: float) -> Survey:
        """Look through what is due.

        A lease is lost at its deadline, not when a request that hangs gives up. Nor may such a request use
        up the time in which others must be renewed.
        """
        self._sort_in(now)
        found = Survey([], REQUEST_TIMEOUT, [], math.inf, [], [])
        for ttl in [ttl for ttl, row in self._rows.items() if not row]:
            del self._rows[ttl]
        for ttl, row in self._rows.items():
            found = _look_through(row.values(), found, now, _next_batch_at(row, ttl))
        found = _look_through(self._unordered.values(), found, now, None)
        found = self._look_at_ends(found, now)
        # A lock used just now will probably be used again soon. A keeper that sleeps no longer than the next
        # lease could need does not have to be woken for each of them.
        wake_at = min(found.wake_at, now + self.shortest_ttl * RENEW_AT)
        self.shortest_ttl = math.inf
        return found._replace(wake_at=wake_at)

    def _look_at_ends(self, found: Survey, now: float) -> Survey:
        """Add what has come to its end among the claims that are not renewed any more."""
        for claim in self._final.until(now + _MIN_TIMEOUT):
            if claim.reason is not None:
                found.ended.append(claim)
            elif claim.deadline <= now:
                found.expired.append(claim)
            else:
                found.pressing.append(claim)
                self._place(claim, claim.deadline, self._final)  # the caller may have renewed it
        next_at = self._final.next_after(now)
        timeout = min(found.timeout, max(next_at - now, _MIN_TIMEOUT))
        return found._replace(timeout=timeout, wake_at=min(found.wake_at, next_at))

    def _sort_in(self, now: float) -> None:
        """Give the new claims their entries. They came in the order of their answers, which may be slow."""
        new = [
            _Entry(claim, claim.sent_at + claim.ticket.ttl * RENEW_AT, self._unordered)
            for claim in self.new.values()
        ]
        for entry in sorted(new, key=_due):
            ttl = entry.claim.ticket.ttl
            in_order = entry.due > self._sorted_until + ttl * (RENEW_AT - _SLACK)
            self._place(entry.claim, entry.due, self._row(ttl) if in_order else self._unordered)
        self._sorted_until = now

    def _row(self, ttl: float) -> Row:
        row = self._rows.get(ttl)
        if row is None:
            row = self._rows[ttl] = OrderedDict()
        return row

    def _place(self, claim: Claim, due: float, row: Row | _Final) -> float:
        """Put a claim at the end of a row; but one that is not renewed any more where it waits for its end.
        Returns when it is due."""
        id = claim.ticket.id
        if claim.final:
            due, row = claim.deadline, self._final
        entry = self.entries.get(id)
        if entry is None:
            # The entry comes first: should this thread be interrupted, `remove` still finds the claim.
            entry = self.entries[id] = _Entry(claim, due, row)
            self.new.pop(id, None)
        else:
            entry.row.pop(id, None)
            entry.due, entry.row = due, row
        row[id] = entry
        return due


def _look_through(
    entries: Iterable[_Entry], found: Survey, now: float, batch_at: float | None
) -> Survey:
    """Add what is due in a row. `batch_at`: when to send the next request of a row in order, else None."""
    batch, timeout, pressing, wake_at, expired, ended = found
    in_order = batch_at is not None
    crowded = batch_at is not None and batch_at < math.inf
    for entry in entries:
        claim = entry.claim
        if claim.reason is not None:
            ended.append(claim)
            continue
        held, deadline, ttl = claim.state is HELD, claim.deadline, claim.ticket.ttl
        timeout = min(timeout, ttl * RENEW_AT)
        if held and deadline > now:
            timeout = min(timeout, max(deadline - now, _MIN_TIMEOUT))
            if deadline < now + _MIN_TIMEOUT:
                pressing.append(claim)
        too_early = batch_at is None or now < batch_at
        # A failed renewal is not repeated early: if the engine refuses at once, that would be a busy loop.
        slack = 0.0 if claim.suspended else ttl * _SLACK
        if too_early and (crowded or entry.due > now + slack):
            wake_at = min(wake_at, entry.due, math.inf if batch_at is None else batch_at)
            if in_order:
                break
            continue
        if held and deadline <= now:
            expired.append(claim)
        elif len(batch) < _BATCH:
            batch.append(claim)
        elif crowded and deadline > now:
            break  # the tickets behind it have more time, and may be a hundred thousand
    return Survey(batch, timeout, pressing, wake_at, expired, ended)


def _next_batch_at(row: Row, ttl: float) -> float:
    """When to send the next request of a row that fills several; infinite if one request will do.

    That is when its first ticket is due, or sooner: so tickets taken in one burst spread over the interval,
    and are not renewed in one burst for ever.
    """
    if len(row) <= _BATCH:
        return math.inf
    interval = ttl * RENEW_AT
    first, newest = next(iter(row.values())), next(reversed(row.values()))
    pace = interval * _BATCH / len(row)
    # Not before half of its time: most leases are released soon, and need no renewal at all.
    return min(first.due, max(newest.claim.sent_at + pace, first.due - interval / 2))
