"""The rule of `core/admission.py`, applied to the rows of a queue.

No ticket overtakes, so the holders of a name are the first tickets of its queue: one ticket that holds
alone, or several tickets of one group. Nothing here looks further back than the first waiter.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from fencelock.core.admission import fits
from fencelock.core.ticket import ALONE, Share
from fencelock.engines.sqlite.statements import SQL


class Holders(NamedTuple):
    """The holders of one name, taken together."""

    size: int
    share: Share
    """Their group, and the permits that they take together."""
    expires: int
    """When the first of them expires, in microseconds since boot."""
    last: int
    """The fence of the last of them. All tickets behind it wait."""
    id: str = ""
    """The id, if there is one holder that holds alone."""
    followed: bool = False
    """Whether a ticket may wait behind them. False: certainly none waits."""

    def admits(self, share: Share) -> bool:
        """Whether the next ticket may hold beside them."""
        return fits(share, [self.share])

    def joined_by(self, share: Share, expires: int, fence: int) -> Holders:
        """The holders after one more was admitted."""
        both = share._replace(weight=self.share.weight + share.weight)
        return Holders(self.size + 1, both, min(self.expires, expires), fence)

    def without(self, weight: int) -> Holders | None:
        """The holders after one of this weight has left."""
        if self.size == 1:
            return None
        rest = self.share._replace(weight=self.share.weight - weight)
        return self._replace(size=self.size - 1, share=rest)


class WakeUp(NamedTuple):
    """A message to send after the commit. If `admitted` is False, it only tells the waiter to look again."""

    address: str
    fence: int
    admitted: bool
    abandoned: bool = False


class Admission:
    """Admits and removes tickets, inside a transaction that the caller begins and commits."""

    def __init__(self, execute: Callable[..., Any]) -> None:
        self._execute = execute
        self.wake_ups: list[WakeUp] = []

    def settle(self, name: str, now: int, asking: str = "") -> tuple[int, bool, Holders | None]:
        """Take out the expired holders, and admit the tickets that may hold instead.

        Returns the name's newest fence (0 if none is known), whether the name is abandoned, and its holders.
        The holders are alive. If several share the name, the first waiter behind them is alive as well.
        """
        rows = self._execute(SQL["look"], (name,)).fetchall()
        if not rows:
            return 0, False, None
        _, id, newest, flag = rows[0]
        if id is not None:
            # The uncontended ticket in the name's own row becomes an ordinary ticket in the queue.
            self._execute(SQL["copy_name_ticket"], (name,))
            self._execute(SQL["clear_name_ticket"], (name,))
            rows = self._execute(SQL["look"], (name,)).fetchall()
        abandoned = flag == 1
        if len(rows) == 1:
            return newest, abandoned, None
        fence, id, expires, group = rows[1]
        if group is not None:
            return newest, abandoned, self.settle_group(name, now, abandoned, asking)
        if expires > now:
            return newest, abandoned, Holders(1, ALONE, expires, fence, id, len(rows) > 2)
        return newest, True, self.abandon(name, fence, now, asking)

    def settle_group(
        self, name: str, now: int, abandoned: bool, asking: str = ""
    ) -> Holders | None:
        """The same, where the first ticket of the queue belongs to a group."""
        holders = self._group(name)
        if holders is not None and holders.expires <= now:
            self._execute(SQL["clear"], (name, holders.last, now))
            holders = self._group(name)
        last = holders.last if holders is not None else 0
        return self.admit(name, holders, last, now, abandoned, asking)

    def abandon(self, name: str, fence: int, now: int, asking: str = "") -> Holders | None:
        """Take out a ticket that held alone and was not released, and admit the tickets behind it."""
        self._execute(SQL["remove"], (name, fence))
        self._execute(SQL["flag"], (name, 1))
        return self.admit(name, None, fence, now, True, asking)

    def admit(
        self,
        name: str,
        holders: Holders | None,
        last: int,
        now: int,
        abandoned: bool,
        asking: str = "",
    ) -> Holders | None:
        """Admit the tickets behind the fence `last`, in order, up to the first that does not fit.

        `asking` is the id of the ticket that gets an answer anyway. It needs no wake-up.
        """
        changed = False
        while (row := self._execute(SQL["behind"], (name, last)).fetchone()) is not None:
            fence, id, expires, address, group, weight, permits = row
            share = ALONE if group is None else Share(group, weight, permits)
            if expires <= now:
                self.remove_expired_waiter(name, fence, address)
                changed = True
                continue
            if holders is not None and not holders.admits(share):
                if changed and share.lasts and id != asking:
                    # No release will admit it: it must learn when to look.
                    self.wake_ups.append(WakeUp(address, fence, False))
                return holders._replace(followed=True)
            changed = True
            if share.lasts:
                expires = now + int(share.lasts * 1e6)
            self._execute(SQL["admit"], (name, fence, now, expires))
            if id != asking:
                self.wake_ups.append(WakeUp(address, fence, True, abandoned))
            if not share.group:
                return Holders(1, ALONE, expires, fence, id, followed=True)
            if holders is None:
                holders = Holders(1, share, expires, fence)
            else:
                holders = holders.joined_by(share, expires, fence)
            last = fence
        return holders

    def remove_waiter(
        self, name: str, fence: int, holders: Holders, now: int, abandoned: bool
    ) -> None:
        """Remove a waiting ticket, and admit the tickets behind it that fit now.

        If the ticket directly behind it stays a waiter, it has another ticket ahead and must look again.
        """
        row = self._execute(SQL["behind"], (name, fence)).fetchone()
        self._execute(SQL["remove"], (name, fence))
        if row is None:
            return
        behind, _, _, address, *_ = row
        if holders.share.group:
            holders = self.admit(name, holders, holders.last, now, abandoned) or holders
        if behind > holders.last:
            self.wake_ups.append(WakeUp(address, behind, False))

    def remove_expired_waiter(self, name: str, fence: int, address: str) -> None:
        """Remove an expired waiting ticket. The message tells a waiter that still listens; if none does,
        sending it removes the dead pipe."""
        self._execute(SQL["remove"], (name, fence))
        self.wake_ups.append(WakeUp(address, fence, False))

    def room_at(self, name: str, share: Share, holders: Holders) -> int:
        """When enough holders have expired for one more ticket of a rate."""
        if holders.id or holders.share.group != share.group:
            return holders.expires
        used = holders.share.weight
        most = max(used + share.weight - share.permits, 1)
        for weight, expires in self._execute(SQL["soonest"], (name, holders.last, most)):
            used -= weight
            if used + share.weight <= share.permits:
                return int(expires)
        return holders.expires

    def _group(self, name: str) -> Holders | None:
        size, group, weight, expires, last = self._execute(SQL["group"], (name,)).fetchone()
        return Holders(size, Share(group, weight), expires, last) if size else None
