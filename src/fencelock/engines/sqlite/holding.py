"""Who holds a name: `core/admission.py`, applied to rows.

Those who hold stand at the front of the queue, for nobody overtakes: either one that holds alone, or a
crowd of one group. Nothing here looks further back than the first one that has to wait.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from fencelock.core.admission import fits
from fencelock.core.ticket import ALONE, Share
from fencelock.engines.sqlite.statements import LOOK, REMOVE, SQL

Head = tuple[int, str, bool]
"""One that holds alone: its fence, its id, and whether certainly nobody waits."""


class Crowd(NamedTuple):
    """Those who share a name, as a whole."""

    size: int
    share: Share
    """Their group, and the permits they take together."""
    expires: int
    """When the first of them expires."""
    last: int
    """The fence of the last of them: whoever is behind waits."""
    followed: bool = False
    """Whether somebody waits."""

    def admits(self, share: Share) -> bool:
        """Whether the next one may hold beside them."""
        return fits(share, [self.share])

    def joined_by(self, one: Crowd) -> Crowd:
        """After one more was admitted."""
        both = one.share._replace(weight=self.share.weight + one.share.weight)
        return Crowd(self.size + 1, both, min(self.expires, one.expires), one.last)

    def without(self, weight: int) -> Crowd | None:
        """After one of them has left."""
        if self.size == 1:
            return None
        rest = self.share._replace(weight=self.share.weight - weight)
        return self._replace(size=self.size - 1, share=rest)


Holding = tuple[Head | None, Crowd | None]
"""One that holds alone, or a crowd, or nobody; then nobody waits either."""


class Wake(NamedTuple):
    """Whom to wake after the commit, and what to tell: with `admitted` False, to look again."""

    address: str
    fence: int
    admitted: bool
    abandoned: bool = False


class Holders:
    """Those who hold the names of one file, over one connection."""

    def __init__(self, execute: Callable[..., Any]) -> None:
        self._execute = execute
        self.wakes: list[Wake] = []

    def settle(
        self, name: str, now: int, asking: str = ""
    ) -> tuple[int, bool, Head | None, Crowd | None]:
        """Take out those who hold no longer, and admit those who may hold instead.

        The name's newest fence (0: not known), its flag, and who holds. All of them live, and so does
        the first behind a crowd.
        """
        rows = self._execute(LOOK, (name,)).fetchall()
        if not rows:
            return 0, False, None, None
        _, id, newest, flag = rows[0]
        if id is not None:
            # Somebody took it undisputed. From now on it is one in a queue.
            self._execute(SQL["apart"], (name,))
            self._execute(SQL["vacate"], (name,))
            rows = self._execute(LOOK, (name,)).fetchall()
        if len(rows) == 1:
            return newest, flag == 1, None, None
        fence, id, expires, group = rows[1]
        if group is None and expires > now:
            return newest, flag == 1, (fence, id, len(rows) == 2), None
        if group is None:
            return newest, True, *self.abandon(name, fence, now, asking)
        abandoned = flag == 1
        return newest, abandoned, *self.settle_crowd(name, now, abandoned=abandoned, asking=asking)

    def settle_crowd(self, name: str, now: int, *, abandoned: bool, asking: str = "") -> Holding:
        """The same, where the first in the queue is one that shares."""
        crowd = self._crowd(name)
        if crowd is not None and crowd.expires <= now:
            self._execute(SQL["clear"], (name, crowd.last, now))
            crowd = self._crowd(name)
        last = crowd.last if crowd is not None else 0
        return self.admit(name, crowd, last, now, abandoned=abandoned, asking=asking)

    def abandon(self, name: str, fence: int, now: int, asking: str = "") -> Holding:
        """Take out one that held alone and did not release, and admit those behind it."""
        self._execute(REMOVE, (name, fence))
        self._execute(SQL["flag"], (name, 1))
        return self.admit(name, None, fence, now, abandoned=True, asking=asking)

    def admit(
        self,
        name: str,
        crowd: Crowd | None,
        last: int,
        now: int,
        *,
        abandoned: bool,
        asking: str = "",
    ) -> Holding:
        """Admit those who fit beside a crowd (None: nobody holds), in their order, from behind `last`."""
        while (row := self.behind(name, last)) is not None:
            fence, id, expires, address, *stored = row
            share = unpacked(*stored)
            if expires <= now:
                self.bury(name, fence, address)
                continue
            if crowd is not None and not crowd.admits(share):
                return None, crowd._replace(followed=True)
            self._execute(SQL["admit"], (name, fence, now))
            if id != asking:
                self.wakes.append(Wake(address, fence, True, abandoned))
            if not share.group:
                return (fence, id, False), None
            one = Crowd(1, share, expires, fence)
            crowd = one if crowd is None else crowd.joined_by(one)
            last = fence
        return None, crowd

    def take_out(
        self, name: str, fence: int, crowd: Crowd | None, now: int, *, abandoned: bool
    ) -> None:
        """Remove a waiting ticket. If that does not let in the one behind it, that one has another
        ahead of it now and should look."""
        row = self.behind(name, fence)
        self._execute(REMOVE, (name, fence))
        if row is None:
            return
        behind, _, _, address, *_ = row
        if crowd is not None:
            _, crowd = self.admit(name, crowd, crowd.last, now, abandoned=abandoned)
        if crowd is None or behind > crowd.last:
            self.wakes.append(Wake(address, behind, False))

    def bury(self, name: str, fence: int, address: str) -> None:
        """Remove a dead waiting ticket. Ringing there tells a sleeper, or finds a pipe to remove."""
        self._execute(REMOVE, (name, fence))
        self.wakes.append(Wake(address, fence, False))

    def behind(self, name: str, fence: int) -> tuple[Any, ...] | None:
        """The ticket directly behind one."""
        row: tuple[Any, ...] | None = self._execute(SQL["behind"], (name, fence)).fetchone()
        return row

    def _crowd(self, name: str) -> Crowd | None:
        size, group, weight, expires, last = self._execute(SQL["crowd"], (name,)).fetchone()
        return Crowd(size, Share(group, weight), expires, last) if size else None


def unpacked(group: str | None, weight: int, permits: int) -> Share:
    """A share as it was stored."""
    return ALONE if group is None else Share(group, weight, permits)
