"""What this replica saw happen to names: a bounded memory that is always on.

It hears of every grant and every release, so `record` only appends a tuple to a ring. The rest of the work is
left to those that ask.

The prefix of a name is the text before its first `:` or `/`, or else the whole name. Each prefix has rings of
its own, so a flood of `order:1`, `order:2` … does not push out what happened to `nightly-report`. And it has
two: grants and releases do not push out what is rare, such as losses, breaks and refused writes.

**The bound**: 32,768 common and 8,192 rare entries, whatever happens: about 13 MB, and twice as much if names
have 500 bytes. The prefixes have equal shares of them. Up to 16 prefixes have 2,048 and 512 each. When their
number doubles, the shares halve: 2,048 prefixes have 16 and 4 each. If there are more, the quarter of them to
which nothing has happened for longest is forgotten.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable
from heapq import merge
from itertools import islice
from operator import itemgetter
from time import time
from typing import Any, Literal

from fencelock.core.ticket import Owner
from fencelock.engines.http.wire import WireOwner
from fencelock.observe.events import (
    Asked,
    Broken,
    EngineRequest,
    Event,
    GaveUp,
    Granted,
    Lost,
    Queued,
    Refused,
    Released,
    Renewed,
    StaleFence,
)
from fencelock.observe.observer import Recorder
from fencelock.service.live.wire import Entry

COMMON, RARE = 32_768, 8_192
"""The numbers of entries in all. Powers of two, so that the prefixes can share them."""

MOST_PREFIXES, _FEWEST_PREFIXES = 2_048, 16

MOST_ENTRIES = 200
"""The longest answer about a name."""

_ENOUGH_OF_NAME, _ENOUGH_OF_PREFIX = 5, 20
"""So many holds must have ended before one can say how long they usually take."""

Usual = tuple[float, Literal["name", "prefix"]]
"""How long a name is usually held, and whose holds say so."""

_Kept = tuple[float, str, str, str, int, str, int, float, Any]
"""When, what, the name, the owner's host, pid and label, the fence, the seconds, and something special. Only
plain values: the garbage collector need not walk through what is kept. And the owner's `data`, which may have
64 kB, is not kept."""

_NO_OWNER = Owner("", 0)

# How other events than grants and releases are kept: a word, and what picks the name, the owner, the fence,
# the seconds and something special from their fields.
_OTHERS: dict[type[Event], tuple[str, Callable[[tuple[Any, ...]], tuple[Any, ...]]]] = {
    GaveUp: ("gave up", lambda fields: (fields[0], fields[3], 0, fields[5], "")),
    Lost: ("lost", itemgetter(0, 3, 5, 6, 7)),
    Broken: ("broken", lambda fields: (fields[0], _NO_OWNER, fields[3], 0.0, fields[2].label)),
    StaleFence: ("refused write", lambda of: (of[0], _NO_OWNER, of[2], 0.0, str(of[3]))),
}


class _Rings:
    """What is kept of a prefix."""

    __slots__ = ("common", "forgotten", "rare", "usual")

    def __init__(self, shares: int, forgotten: float | None) -> None:
        self.common: deque[_Kept] = deque(maxlen=COMMON // shares)
        self.rare: deque[_Kept] = deque(maxlen=RARE // shares)
        self.forgotten = forgotten
        """The prefix may have been known before, and all until this moment is forgotten then."""
        self.usual: _Usual | None = None

    def newest(self) -> float:
        """When something last happened to the prefix."""
        return max(ring[-1][0] for ring in (self.common, self.rare) if ring)

    def shrink(self, shares: int) -> None:
        """Forget the oldest entries, so that no ring has more than its share."""
        self.common = deque(self.common, COMMON // shares)
        self.rare = deque(self.rare, RARE // shares)


class History(Recorder):
    """What this replica saw happen to names."""

    ignores = (Asked, Queued, Refused, Renewed, EngineRequest)

    def __init__(self, replica: str) -> None:
        self.started = time()
        self._replica = replica
        self._prefixes: dict[str, _Rings] = {}
        self._shares = _FEWEST_PREFIXES
        self._forgotten: float | None = None
        """When something last happened to the prefixes that are forgotten."""

    def record(self, kind: type[Event], fields: tuple[Any, ...], since: object = None, /) -> None:
        """Keep an event, if it is one of those that are kept."""
        if kind is Granted:
            name, _, _, owner, _, seconds, fence, special = fields  # special: abandoned
            event = "granted"
        elif kind is Released:
            name, _, _, owner, _, fence, seconds, special = fields  # special: silent
            event = "released"
        elif kind in _OTHERS:
            event, pick = _OTHERS[kind]
            name, owner, fence, seconds, special = pick(fields)
        else:
            return
        prefix = name.partition(":")[0].partition("/")[0]  # as `_prefix`, without a call
        rings = self._prefixes.get(prefix) or self._meet(prefix)
        ring = rings.rare if special else rings.common
        ring.append(
            (time(), event, name, owner.host, owner.pid, owner.label, fence, seconds, special)
        )

    def of(self, name: str) -> list[Entry]:
        """What happened to a name, newest first: not more than `MOST_ENTRIES`."""
        rings = self._prefixes.get(_prefix(name))
        if rings is None:
            return []
        when = itemgetter(0)
        newest = merge(reversed(rings.common), reversed(rings.rare), key=when, reverse=True)
        found = (self._entry(kept) for kept in newest if kept[2] == name)
        return list(islice(found, MOST_ENTRIES))

    def forgotten_before(self, name: str) -> float | None:
        """The moment before which something about this name may be forgotten. None: nothing is."""
        rings = self._prefixes.get(_prefix(name))
        if rings is None:
            return self._forgotten
        found = [] if rings.forgotten is None else [rings.forgotten]
        found += [ring[0][0] for ring in (rings.common, rings.rare) if len(ring) == ring.maxlen]
        return max(found, default=None)

    def since(self, name: str) -> float:
        """The moment since which everything that was seen of this name is here."""
        return max(self.started, self.forgotten_before(name) or 0.0)

    def usual(self, name: str) -> Usual | None:
        """How long a name is usually held: its own median, or that of its prefix, or None.

        Cheap if many names are asked for one after the other: a prefix is only looked at again if something
        has happened to it.
        """
        rings = self._prefixes.get(_prefix(name))
        if rings is None or not rings.common:
            return None
        if rings.usual is None or rings.usual.as_of is not rings.common[-1]:
            rings.usual = _Usual(rings.common)
        return rings.usual.of(name)

    # --- parts

    def _meet(self, prefix: str) -> _Rings:
        prefixes = self._prefixes
        if len(prefixes) >= MOST_PREFIXES:
            by_age = sorted(prefixes, key=lambda each: prefixes[each].newest())
            for each in by_age[: MOST_PREFIXES // 4]:
                self._forgotten = prefixes.pop(each).newest()
        elif len(prefixes) >= self._shares:
            self._shares *= 2
            for rings in prefixes.values():
                rings.shrink(self._shares)
        rings = prefixes[prefix] = _Rings(self._shares, self._forgotten)
        return rings

    def _entry(self, kept: _Kept) -> Entry:
        moment, event, _, host, pid, label, fence, seconds, special = kept
        replica = self._replica
        owner = WireOwner(host, pid, label) if host else None
        shown = str(fence) if fence else ""
        match event:
            case "granted":
                about = (owner, shown, seconds, None, special)
                return Entry(moment, event, replica, *about)
            case "gave up":
                return Entry(moment, event, replica, owner, waited=seconds)
            case "broken":
                return Entry(moment, event, replica, fence=shown, by=special)
            case "refused write":
                return Entry(moment, event, replica, fence=str(fence), newest=special)
        silent, reason = special is True, special if event == "lost" else ""
        word = "silent" if silent else event
        return Entry(moment, word, replica, owner, shown, None, seconds, reason=reason)


class _Usual:
    """How long the names of a prefix are usually held."""

    def __init__(self, ring: deque[_Kept]) -> None:
        self.as_of = ring[-1]
        """The newest entry when this was found."""
        holds: defaultdict[str, list[float]] = defaultdict(list)
        every: list[float] = []
        for _, event, name, _, _, _, _, seconds, _ in ring:
            if event == "released":
                holds[name].append(seconds)
                every.append(seconds)
        self._of_names = {
            name: _median(each) for name, each in holds.items() if len(each) >= _ENOUGH_OF_NAME
        }
        self._of_prefix = _median(every) if len(every) >= _ENOUGH_OF_PREFIX else None

    def of(self, name: str) -> Usual | None:
        if name in self._of_names:
            return self._of_names[name], "name"
        return None if self._of_prefix is None else (self._of_prefix, "prefix")


def _prefix(name: str) -> str:
    return name.partition(":")[0].partition("/")[0]


def _median(values: list[float]) -> float:
    """One of the values, in the middle."""
    return sorted(values)[len(values) // 2]
