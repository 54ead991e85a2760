"""What `fencelock top` knows: polls of the engine become rows. Pure: no engine, no terminal, no clock."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal, NamedTuple, get_args

from fencelock.cli.listing import in_use
from fencelock.core.names import matches
from fencelock.core.ticket import Inspection

Order = Literal["waiting", "held", "name"]
ORDERS: tuple[Order, ...] = get_args(Order)

WINDOW = 10.0
"""Rates are about so many seconds."""


class Look(NamedTuple):
    """What a look at one name has found, and when."""

    at: float
    seen: Inspection


class Poll(NamedTuple):
    """What one poll of the engine has found."""

    at: float
    """When it began."""
    took: float
    pause: float
    """Seconds until the next poll."""
    names: Sequence[str]
    """All names that are held or waited for, or the first of them."""
    more: int
    """How many names are left out, because there are too many."""
    looks: Mapping[str, Look]
    """The names that this poll has looked at."""


class Trouble(NamedTuple):
    """The engine did not answer the last poll."""

    reason: str
    next_try: float


class Row(NamedTuple):
    """One name, as it was when we last looked at it."""

    name: str
    seen: Inspection | None = None
    """None: not looked at yet."""
    looked_at: float = 0.0
    rate: float | None = None
    """New holders per second that we saw. None: we have looked only once."""
    expires_in: float = math.inf
    """Seconds until the first of the holders expires unless renewed."""
    ttl: float = math.inf
    """The longest `expires_in` of this holder so far. Engines don't say what its ttl is."""
    held_since: float = math.inf
    """When its oldest holder got it, by our clock. Infinite: nobody holds it, as far as we know."""

    @property
    def waiting(self) -> int:
        return self.seen.waiting if self.seen else 0

    @property
    def held_for(self) -> float | None:
        """Seconds for which its oldest holder has held it. None: nobody holds it, as far as we know."""
        holders = self.seen.holders if self.seen else ()
        return max((each.held_for for each in holders), default=None)


_KEYS: dict[Order, Callable[[Row], Any]] = {
    "waiting": lambda row: (row.seen is None, -row.waiting, row.held_since, row.name),
    "held": lambda row: (row.held_since, row.seen is None, row.name),
    "name": lambda row: row.name,
}


def sort_inspections(seen: Sequence[Inspection], order: Order) -> list[Inspection]:
    """Names that were all looked at just now, sorted as the view sorts them."""
    rows = sorted((_History(each.name, 0.0, each).row() for each in seen), key=_KEYS[order])
    return [row.seen for row in rows if row.seen]


class _Holder(NamedTuple):
    """What we know about a present holder."""

    since: float
    """When it got the name, by our clock. We keep the first value: later ones differ by a little, and rows
    would change places."""
    ttl: float
    """The longest `expires_in` so far."""


class _History:
    """What we have seen of one name."""

    def __init__(self, name: str, began: float, seen: Inspection | None = None) -> None:
        self.seen: Inspection | None
        """None: it is free."""
        self._name = name
        self._holders: dict[int, _Holder] = {}
        """The present holders, by fence."""
        self._grants = 0
        self._looks = deque([(began, 0)])
        """When we looked, and how many new holders we had seen until then. The first look is before the
        window, so that a rate is never more than what we saw."""
        self._remember(began, seen)

    def add(self, at: float, seen: Inspection | None) -> None:
        """One more look. `seen` is None if the name is free."""
        if at <= self._looks[-1][0]:
            return  # the user asked for a look in the middle of a poll: that one is newer
        self._grants += self._remember(at, seen)
        self._looks.append((at, self._grants))
        while self._looks[1][0] <= at - WINDOW:
            self._looks.popleft()

    def _remember(self, at: float, seen: Inspection | None) -> int:
        """Returns the number of new holders."""
        before, self._holders, self.seen = self._holders, {}, seen
        for each in seen.holders if seen else ():
            known = before.get(each.fence, _Holder(at - each.held_for, 0.0))
            self._holders[each.fence] = _Holder(known.since, max(known.ttl, each.expires_in))
        return len(self._holders.keys() - before.keys())

    @property
    def rate(self) -> float | None:
        """New holders per second. None: we have looked only once."""
        (began, before), (at, after) = self._looks[0], self._looks[-1]
        return (after - before) / (at - began) if at > began else None

    def row(self) -> Row:
        holders = self.seen.holders if self.seen else ()
        left, ttl = min(
            ((each.expires_in, self._holders[each.fence].ttl) for each in holders),
            default=(math.inf, math.inf),
        )
        since = min((each.since for each in self._holders.values()), default=math.inf)
        return Row(self._name, self.seen, self._looks[-1][0], self.rate, left, ttl, since)


class Model:
    """All that the polls have told so far."""

    def __init__(self) -> None:
        self.names: Sequence[str] = ()
        self.looked = 0
        """How many of the names we have looked at."""
        self.rate: float | None = None
        """New holders per second of all names. None: there was only one poll."""
        self.last: Poll | None = None
        """The last poll that was answered."""
        self.trouble: Trouble | None = None
        """None: the last poll was answered."""
        self.version = 0
        """Changes with everything that rows depend on."""
        self._began = 0.0
        self._histories: dict[str, _History] = {}

    def take(self, poll: Poll) -> None:
        """Learn from a poll that was answered."""
        histories, last = self._histories, self.last
        self._began = self._began if last else poll.at
        # A name that was released after this poll had listed it is free.
        free = {name for name, look in poll.looks.items() if not in_use(look.seen)}
        self.names = [name for name in poll.names if name not in free]
        for name in histories.keys() - set(self.names):
            histories[name].add(poll.at, None)
            if not (histories[name].seen or histories[name].rate):
                del histories[name]  # with a rate it may come back, and the rate goes on
        if last is not None and not last.more:
            # The polls until now did not list these names, so their holders are new.
            for name in poll.looks.keys() - free - histories.keys() - set(last.names):
                histories[name] = _History(name, max(self._began, last.at - WINDOW))
        for name in poll.looks.keys() - free:
            self._add(poll.looks[name])
        self.looked = sum(name in histories for name in self.names)
        self.rate = sum(each.rate or 0.0 for each in histories.values()) if last else None
        self.last, self.trouble = poll, None
        self.version += 1

    def look(self, look: Look) -> None:
        """Learn from a look at one name, between two polls."""
        self._add(look)
        self.version += 1

    def fail(self, trouble: Trouble) -> None:
        """Learn that the engine did not answer. What we know is from the last poll then."""
        self.trouble = trouble

    def row(self, name: str) -> Row:
        """What we know about one name."""
        history = self._histories.get(name)
        return history.row() if history else Row(name)

    def rows(self, order: Order, filter: str = "") -> list[Row]:
        """The names that match a filter, sorted."""
        rows = [self.row(name) for name in self.names if not filter or matching(name, filter)]
        # A look since the last poll may have found a name free.
        present = (row for row in rows if row.seen or row.name not in self._histories)
        return sorted(present, key=_KEYS[order])

    def _add(self, look: Look) -> None:
        name, used = look.seen.name, look.seen if in_use(look.seen) else None
        if name in self._histories:
            self._histories[name].add(look.at, used)
        elif used:
            self._histories[name] = _History(name, look.at, used)


def matching(name: str, filter: str) -> bool:
    """Whether a name matches what the user typed: a pattern as for `ls`, or a part of the name."""
    pattern = filter if set(filter) & set("*?[") else f"*{filter}*"
    return matches(name, pattern)


def choose(
    names: Iterable[str],
    visible: Sequence[str],
    looked_at: Mapping[str, float],
    preferred: Callable[[str], bool],
) -> list[str]:
    """The order in which a poll looks at names: those on the screen, then those not seen for the longest."""
    present = set(names)
    first = [name for name in visible if name in present]
    rest = sorted(
        present.difference(first),
        key=lambda name: (not preferred(name), looked_at.get(name, -math.inf), name),
    )
    return first + rest
