"""The names that something has just happened to at this replica. The poller looks at them soon."""

from __future__ import annotations

from time import monotonic
from typing import Any

from fencelock.observe.events import Broken, Event, GaveUp, Granted, Lost, Queued, Released
from fencelock.observe.observer import Recorder
from fencelock.service.live.rows import Board

_SETTLED = 0.1
"""Seconds until a name is looked at. Most locks are held for less: they come and go without a look."""

_MOST = 20_000

_BEGIN = (Queued, Granted)
_END = (Released, Lost, GaveUp, Broken)


class Touched(Recorder):
    """Listens while a page is open."""

    def __init__(self, board: Board) -> None:
        self._board = board
        self._names: dict[str, tuple[int, float]] = {}
        """Of each name: the ticket that came last, and since when it should be looked at."""

    def record(self, kind: type[Event], fields: tuple[Any, ...], since: object = None, /) -> None:
        """Note the name. Forget one that is not on the board if the ticket that brought it is gone."""
        if kind in _BEGIN:
            name, ticket = fields[0], fields[4]
        elif kind in _END:
            name, ticket = fields[0], 0
            if name not in self._board:
                last = self._names.get(name)
                if kind is not Broken and last is not None and last[0] == fields[4]:
                    del self._names[name]
                return
        else:
            return
        _, at = self._names.get(name, (0, 0.0))
        self._names[name] = ticket, at or monotonic()
        if len(self._names) > _MOST:
            del self._names[next(iter(self._names))]

    def due(self, now: float) -> list[str]:
        """The names to look at now, the one that was touched first in front."""
        return [name for name, (_, at) in self._names.items() if now - at >= _SETTLED]

    def looked(self, name: str) -> None:
        """The poller is about to look at this name."""
        self._names.pop(name, None)

    def clear(self) -> None:
        """Nobody listens any more."""
        self._names.clear()
