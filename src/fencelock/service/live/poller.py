"""Asks the engine on behalf of all open pages: one poller per replica, within a budget."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Iterable, Iterator
from itertools import zip_longest
from random import Random
from typing import NamedTuple

from fencelock.core.backoff import Backoff
from fencelock.core.errors import EngineError
from fencelock.core.ticket import Inspection
from fencelock.engines.contract import Engine
from fencelock.service.live.budget import Budget
from fencelock.service.live.rows import Board
from fencelock.service.live.touched import Touched
from fencelock.service.live.wire import Trouble
from fencelock.service.watching import PROBED

log = logging.getLogger("fencelock.service")

TIMEOUT = 2.0
"""Seconds that the engine has for an answer. After that the pages say that it does not answer."""

_LIST_TIMEOUT = 5.0
"""The same for a part of a listing."""

_TICK = 0.2
"""Seconds between two turns."""

_LIST_EVERY = 1.0
"""Seconds from the end of a listing to the next, at least."""

_BATCH = 16
"""Names that are looked at together."""

_MOST = 1000
"""Names that are looked at in one turn, at most."""

_FRESH = 1.0
"""Seconds after which a name that a page shows is looked at again."""

_OLD = 5.0
"""The same for a name that no page shows."""

_WAITERS = 8
"""Waiters that a look brings along."""

MAX_WAITERS = 200
"""The same for a name that a page has opened."""


class Interest(NamedTuple):
    """What the open pages show."""

    opened: Iterable[str]
    """Names that a page shows with its queue."""
    visible: Iterable[str]


class Look(NamedTuple):
    """What was seen of a name, and when, by the clock on the wall."""

    at: float
    seen: Inspection


class _Listing:
    """A listing of all names that has begun."""

    def __init__(self, engine: Engine) -> None:
        self.began = time.time()
        self.parts = engine.candidates(timeout=_LIST_TIMEOUT)
        self.names: set[str] = set()


class Poller:
    """Keeps the board up to date while `run` runs. `published` is called after each turn."""

    def __init__(
        self,
        engine: Engine,
        board: Board,
        touched: Touched,
        interest: Callable[[], Interest],
        published: Callable[[], None],
    ) -> None:
        self.trouble: Trouble | None = None
        """Why the board may be out of date."""
        self.listed_at: float | None = None
        self.list_took = 0.0
        """Seconds that the last listing took, with its pauses."""
        self._engine = engine
        self._board = board
        self._touched = touched
        self._interest = interest
        self._published = published
        self._budget = Budget(time.monotonic())
        self._backoff = Backoff(0.5, 5.0, Random())
        self._listing: _Listing | None = None
        self._answered_at = 0.0
        """When the engine has last answered."""
        self._details: dict[str, tuple[float, asyncio.Task[Look]]] = {}
        """Looks at names that were opened, for all who want them at the same time."""

    @property
    def load(self) -> float:
        """The share of the engine's time that the pages have taken lately."""
        return self._budget.load

    async def run(self) -> None:
        """Poll until cancelled."""
        while True:
            try:
                await self._turn(time.monotonic())
                self.trouble = None
                self._backoff.reset()
                pause = _TICK
            except Exception as error:
                pause = self._failed(error)
            self._published()
            await asyncio.sleep(pause)

    def _failed(self, error: Exception) -> float:
        """Note why a turn failed. Returns the pause until the next one."""
        detail = str(error)
        if not isinstance(error, EngineError):
            detail = "a fault of the service: its log says more"
            log.error("the live page can't be kept up to date", exc_info=error)
        since = time.time() if self.trouble is None else self.trouble.since
        self.trouble = Trouble(detail, since)
        return self._backoff.next()

    async def details(self, name: str) -> Look:
        """Look at a name and its queue. Whoever asks within the next second gets the same answer."""
        now = time.monotonic()
        for each in [each for each, (at, _) in self._details.items() if now - at > _FRESH]:
            del self._details[each]
        if name not in self._details:
            self._details[name] = now, asyncio.create_task(self._look_closely(name))
        # Shielded: a page that goes away must not end the look for the others.
        return await asyncio.shield(self._details[name][1])

    # --- one turn

    async def _turn(self, now: float) -> None:
        self._budget.fill(now)
        if self._listing is not None or self._should_list():
            await self._list()
        names = list(_first(min(self._budget.looks, _MOST), self._due(now)))
        size = 1  # the first one shows how long the way to the engine is
        while names:
            await self._look_at(names[:size])
            names, size = names[size:], _BATCH
        if time.monotonic() - self._answered_at > _FRESH:  # is it still there?
            await self._look(PROBED, 0)

    def _should_list(self) -> bool:
        soon = (self.listed_at or 0.0) + _LIST_EVERY
        return time.time() >= soon and self._budget.may_list_again

    async def _list(self) -> None:
        """List all names, or as many of them as may be listed now."""
        if self._listing is None:
            self._listing = _Listing(self._engine)
        listing = self._listing
        while self._budget.may_list:
            began = time.monotonic()
            try:
                names = await anext(listing.parts, None)
            except Exception:
                self._listing = None
                raise
            if names is None:
                self._board.listed(listing.names, listing.began)
                self.listed_at, self._listing = time.time(), None
                self.list_took = self.listed_at - listing.began
                return
            self._answered_at = time.monotonic()
            self._budget.listed(self._answered_at - began)
            listing.names.update(names)
            self._board.found(names, time.time())

    def _due(self, now: float) -> Iterator[str]:
        """The names to look at, the most urgent first."""
        wall = time.time()
        interest = self._interest()
        yield from self._older_than(interest.opened, wall - _FRESH)
        shown = self._older_than(interest.visible, wall - _FRESH)
        # In turns, so that none of them can starve the others.
        for some in zip_longest(shown, self._touched.due(now), self._board.unlooked):
            yield from (name for name in some if name is not None)
        if self._budget.is_ample:
            for row in self._board.rows():
                if (row.looked_at or 0.0) > wall - _OLD:
                    break  # those that follow have changed later
                yield row.name

    def _older_than(self, names: Iterable[str], wall: float) -> list[str]:
        """Those of these names on the board that were not looked at since then; the oldest look first."""
        looks = {
            name: self._board.row(name).looked_at or 0.0 for name in names if name in self._board
        }
        return sorted((name for name, at in looks.items() if at < wall), key=looks.__getitem__)

    async def _look_at(self, names: list[str]) -> None:
        began = time.monotonic()
        looks = (self._look(name, _WAITERS) for name in names)
        for found in await asyncio.gather(*looks, return_exceptions=True):
            if isinstance(found, BaseException):
                raise found
        self._budget.looked(len(names), time.monotonic() - began)

    async def _look_closely(self, name: str) -> Look:
        began = time.monotonic()
        found = await self._look(name, MAX_WAITERS)
        self._budget.looked(1, time.monotonic() - began)
        return found

    async def _look(self, name: str, limit: int) -> Look:
        """Look at one name, and note it on the board."""
        self._touched.looked(name)
        at = time.time()
        seen = await self._engine.inspect(name, limit=limit, timeout=TIMEOUT)
        self._answered_at = time.monotonic()
        self._board.looked(seen, at)
        return Look(at, seen)


def _first(count: int, names: Iterator[str]) -> Iterator[str]:
    """The first of these names, each one once."""
    taken: set[str] = set()
    for name in names:
        if len(taken) >= count:
            return
        if name not in taken:
            taken.add(name)
            yield name
