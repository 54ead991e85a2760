"""Transactions that wait for one another in a circle, as far as the looks at names have shown."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from fencelock.core.deadlock import Stamp, ahead
from fencelock.core.ticket import Inspection, Owner, Waiter
from fencelock.engines.http.wire import WireOwner
from fencelock.service.live.rows import Board
from fencelock.service.live.wire import Circle, Step
from fencelock.service.principals import Principal

_MOST = 200
"""Transactions that are looked at. So many in circles are trouble enough."""


class _Wait(NamedTuple):
    """One transaction waits for another."""

    owner: Owner
    name: str
    ahead: str
    """The transaction that holds the name, or waits for it in front of this one."""


class Circles:
    """The circles that were confirmed.

    Names are looked at one after the other, so a circle that is seen once may never have existed. It counts
    if it is still there after all its names were looked at again.
    """

    def __init__(self, board: Board) -> None:
        self.found: list[Circle] = []
        self.suspected: list[str] = []
        """The names of all circles that were seen. The poller looks at them often."""
        self._board = board
        self._seen_at: dict[frozenset[str], float] = {}

    def update(self, now: float) -> None:
        """Find the circles on the board as it is now, by the clock on the wall."""
        before, self._seen_at, self.found, self.suspected = self._seen_at, {}, [], []
        for circle in circles(self._board.transactions()):
            who = frozenset(step.transaction for step in circle.steps)
            names = [step.waits_for for step in circle.steps]
            since = self._seen_at[who] = before.get(who, now)
            self.suspected += names
            if all((self._board.row(name).looked_at or 0.0) > since for name in names):
                self.found.append(circle)

    def readable(self, principal: Principal, name: str | None = None) -> tuple[Circle, ...]:
        """The circles that a principal may see: all of them, or those with this name."""
        return tuple(
            circle
            for circle in self.found
            if (name is None or any(name == step.waits_for for step in circle.steps))
            and all(principal.may("read", step.waits_for) for step in circle.steps)
        )


def circles(seen: Iterable[Inspection]) -> list[Circle]:
    """The circles in what was seen, each transaction in one of them at most."""
    waits: dict[str, list[_Wait]] = {}
    holds: dict[str, list[str]] = {}
    for each in seen:
        for holder in each.holders:
            stamp = Stamp.of(holder)
            if stamp is not None:
                holds.setdefault(stamp.id, []).append(each.name)
        for waiter in each.waiters:
            for id, wait in _waits(each, waiter):
                waits.setdefault(id, []).append(wait)
    found: list[Circle] = []
    known: set[str] = set()
    for start in list(waits)[:_MOST]:
        path = [] if start in known else _way_back(start, waits)
        if path and not known.intersection(id for id, _ in path):
            known.update(id for id, _ in path)
            steps = (_step(id, wait, holds.get(id, ())) for id, wait in path)
            found.append(Circle(tuple(steps)))
    return found


def _waits(seen: Inspection, waiter: Waiter) -> Iterator[tuple[str, _Wait]]:
    mine = Stamp.of(waiter)
    if mine is not None:
        for _, other in ahead(seen, waiter.fence):
            if other.id != mine.id:
                yield mine.id, _Wait(waiter.owner, seen.name, other.id)


def _way_back(start: str, waits: dict[str, list[_Wait]]) -> list[tuple[str, _Wait]]:
    """The shortest way from a transaction over those that it waits for back to itself. Empty: none."""
    came_by: dict[str, tuple[str, _Wait]] = {}
    coming = deque([start])
    while coming:
        id = coming.popleft()
        for wait in waits.get(id, ()):
            if wait.ahead == start:
                path = [(id, wait)]
                while path[-1][0] != start:
                    path.append(came_by[path[-1][0]])
                return path[::-1]
            if wait.ahead not in came_by:
                came_by[wait.ahead] = id, wait
                coming.append(wait.ahead)
    return []


def _step(id: str, wait: _Wait, holds: Iterable[str]) -> Step:
    host, pid, label, _ = wait.owner
    return Step(id, WireOwner(host, pid, label), wait.name, tuple(sorted(holds)))
