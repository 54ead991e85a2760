"""The board: what is known of all names that are held or waited for, and what has changed since a version."""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Set
from typing import NamedTuple

from fencelock.core.deadlock import Stamp, is_sign
from fencelock.core.ticket import Holder, Inspection, Waiter
from fencelock.engines.http.wire import WireOwner, WireShare
from fencelock.service.live.wire import Contender, Row

LIMIT = 20_000
"""The most names on the board. Each takes about 2 kB."""

_REMEMBERED = 20_000
"""How many names that are free by now are remembered, for pages that come back."""

_LONGEST_PAUSE = 60.0
"""Seconds until a name that is listed, and was found to be free again and again, is looked at once more."""

Usual = tuple[float, str] | None
"""For how long a name is usually held, and of what this is known."""


class Changes(NamedTuple):
    """What has changed since a version."""

    rows: list[Row]
    gone: list[str]
    reset: bool
    """Whether this is the whole state: the changes since that version are not known any more."""


class _Entry:
    """One name on the board."""

    __slots__ = ("row", "version")

    def __init__(self, row: Row) -> None:
        self.row = row
        self.version = 0


class Board:
    """All names. Every change of a row gets the next version."""

    def __init__(self, limit: int = LIMIT) -> None:
        self.version = 0
        self.left_out = 0
        """Names that are not on the board, because there are too many."""
        self._limit = limit
        self._entries: OrderedDict[str, _Entry] = OrderedDict()
        """The entry that changed last is the last one."""
        self.unlooked: dict[str, None] = {}
        """Names that were listed, but not looked at yet."""
        self._free: dict[str, tuple[float, float]] = {}
        """Names that are listed although they are free, as when their holder has died and nobody waits: not
        to be looked at before this moment, and the last pause."""
        self._stamped: dict[str, Inspection] = {}
        """What was seen of the names for which transactions stand."""
        self._gone: OrderedDict[str, int] = OrderedDict()
        """The versions in which names became free."""
        self._known_since = 0
        """Changes after this version are known."""

    def __contains__(self, name: str) -> bool:
        return name in self._entries

    def __len__(self) -> int:
        return len(self._entries)

    def row(self, name: str) -> Row:
        """What is known of this name; of a free one, next to nothing."""
        entry = self._entries.get(name)
        return Row(name) if entry is None else entry.row

    def rows(self) -> Iterator[Row]:
        """All rows. The one that has not changed for the longest time comes first."""
        return (entry.row for entry in self._entries.values())

    def transactions(self) -> list[Inspection]:
        """What was seen of the names for which transactions stand."""
        return list(self._stamped.values())

    # --- what the engine has said

    def found(self, candidates: Iterable[str], now: float) -> None:
        """Learn some names that may be in use."""
        for name in candidates:
            if name in self._entries or name in self.unlooked or is_sign(name):
                continue
            not_before, _ = self._free.get(name, (0.0, 0.0))
            if not_before <= now and len(self.unlooked) < self._limit:
                self.unlooked[name] = None

    def listed(self, candidates: Set[str], began: float) -> None:
        """Learn that these were all names that may have been in use, since this moment."""
        self.left_out = max(0, len(candidates) - self._limit)
        self._free = {name: self._free[name] for name in self._free.keys() & candidates}
        for name in self._entries.keys() - candidates:
            if (self._entries[name].row.looked_at or 0.0) < began:
                self._remove(name)

    def looked(self, seen: Inspection, at: float) -> None:
        """Learn what was seen of one name at this moment."""
        name = seen.name
        before = self._entries.get(name)
        known = None if before is None else before.row
        if known is not None and known.looked_at is not None and known.looked_at > at:
            return  # a later look was answered sooner
        self.unlooked.pop(name, None)
        if not (seen.holders or seen.waiting):
            _, pause = self._free.get(name, (0.0, 0.5))
            pause = min(2 * pause, _LONGEST_PAUSE)
            self._free[name] = at + pause, pause
            if before is not None:
                self._remove(name)
            return
        if is_sign(name) or (before is None and len(self._entries) >= self._limit):
            return
        self._set(name, row_of(seen, at, known))
        if any(Stamp.of(each) is not None for each in seen.contenders):
            self._stamped[name] = seen
        else:
            self._stamped.pop(name, None)

    def compare(self, usual_of: Callable[[str], Usual]) -> None:
        """Learn for how long the names are usually held."""
        for name, entry in list(self._entries.items()):
            found = usual_of(name)
            usual, of = (None, "name") if found is None else (float(f"{found[0]:.2g}"), found[1])
            row = entry.row
            if (row.usual, row.usual_of) != (usual, of):
                self._set(name, _replaced(row, usual, of))

    def clear(self) -> None:
        """Forget everything: nobody has looked for a long time."""
        for name in list(self._entries):
            self._remove(name)

    # --- what the pages ask

    def since(self, version: int) -> Changes:
        """What has changed after this version."""
        reset = not self._known_since <= version <= self.version
        if reset:
            version = -1
        rows: list[Row] = []
        for entry in reversed(self._entries.values()):
            if entry.version <= version:
                break
            rows.append(entry.row)
        gone: list[str] = []
        for name in () if reset else reversed(self._gone):
            if self._gone[name] <= version:
                break
            gone.append(name)
        return Changes(rows, gone, reset)

    # ---

    def _set(self, name: str, row: Row) -> None:
        entry = self._entries.get(name)
        if entry is None:
            entry = self._entries[name] = _Entry(row)
            self._gone.pop(name, None)
        entry.row = row
        self.version += 1
        entry.version = self.version
        self._entries.move_to_end(name)

    def _remove(self, name: str) -> None:
        del self._entries[name]
        self._stamped.pop(name, None)
        self.version += 1
        self._gone[name] = self.version
        if len(self._gone) > _REMEMBERED:
            _, self._known_since = self._gone.popitem(last=False)


def row_of(seen: Inspection, at: float, known: Row | None = None) -> Row:
    """The row of a name as it was seen at this moment. `known`: the row of an earlier look."""
    before, first = {}, None
    if known is not None:
        before, first = {each.fence: each for each in known.holders}, known.first
    holders = (contender(each, at, before.get(str(each.fence))) for each in seen.holders)
    return Row(
        seen.name,
        tuple(holders),
        seen.waiting,
        contender(seen.waiters[0], at, first) if seen.waiters else None,
        seen.abandoned,
        str(seen.fence),
        at,
        known.usual if known is not None else None,
        known.usual_of if known is not None else "name",
    )


def contender(each: Holder | Waiter, at: float, known: Contender | None = None) -> Contender:
    """A ticket as it was seen at this moment. `known`: what an earlier look has shown in this place."""
    owner, number, seconds, expires_in, share = each
    fence, since, ttl = str(number), round(at - seconds, 3), expires_in
    if known is not None and known.fence == fence:
        # The first value of `since`: later ones differ a little, and rows would change places.
        since, ttl = known.since, max(known.ttl or 0.0, expires_in)
    expires = expires_in < math.inf
    return Contender(
        WireOwner(owner.host, owner.pid, owner.label),
        fence,
        since,
        round(at + expires_in, 3) if expires else None,
        round(ttl, 3) if expires else None,
        WireShare(*share) if share.group else None,
    )


def _replaced(row: Row, usual: float | None, of: str) -> Row:
    fields = {each: getattr(row, each) for each in row.__struct_fields__}
    return Row(**{**fields, "usual": usual, "usual_of": of})
