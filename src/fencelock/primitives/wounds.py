"""wound-wait: an older transaction wounds the younger ones ahead, and these give way.

Wounds never move ownership: a victim releases by itself, at the latest when it would wait. They are told
by a *bell*, a name of each attempt of a transaction. While it waits it holds its bell, and waits behind
itself: whoever wounds it takes it out there, and that wakes it. While it does not wait, whoever wounds it
takes the bell instead, and it finds that before it sleeps the next time.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from fencelock.core.deadlock import Stamp, to_wound
from fencelock.core.errors import DeadlockVictim, EngineError, FencelockError
from fencelock.core.ticket import Departure, Owner, Ticket
from fencelock.primitives.keeper import Keeper
from fencelock.primitives.kept import WITHDRAWN, Kept
from fencelock.primitives.policies import Policy
from fencelock.primitives.sweeper import REQUEST_TIMEOUT
from fencelock.primitives.waiting import LEAST_TIMEOUT, new_id, obtain, withdraw

if TYPE_CHECKING:
    from fencelock.primitives.transaction import BaseTransaction

_ARMED = "armed"


def bell_of(stamp: Stamp) -> str:
    return f"tx {stamp.id}.{stamp.attempt} (bell)"


class _Alarm:
    """The bell of one who waits."""

    def __init__(self, bell: Kept, parked: Kept) -> None:
        self.bell = bell
        self.parked = parked
        self.over = False
        self.rang = False


class WoundWait(Policy):
    """Wound every younger one ahead, then wait."""

    def __init__(self, transaction: BaseTransaction[Any], keeper: Keeper) -> None:
        super().__init__(transaction, keeper)
        self._alarm: _Alarm | None = None
        self._marks: dict[Stamp, Kept] = {}
        """The bells that we have taken, of those whom we wounded."""

    async def attend(self, kept: Kept) -> float:
        others = await self._ahead(kept)
        if self._alarm is None:
            await self._arm(kept)
        for stamp in to_wound(self._transaction.stamp, (stamp for _, stamp in others)):
            await self._wound(stamp, kept)
        if self._alarm is not None and self._alarm.rang:
            raise self._victim(kept.ticket.name, "an older one waits for what it holds")
        return math.inf

    async def settle(self) -> DeadlockVictim | None:
        alarm, self._alarm = self._alarm, None
        marks, self._marks = self._marks, {}
        for mark in marks.values():
            await withdraw(self._keeper, mark, 0.0)
        if alarm is None:
            return None
        alarm.over = True  # before it leaves: that wakes the one who listens
        self._keeper.forget(alarm.bell)
        alarm.bell.reason = WITHDRAWN
        try:
            there = await self._engine.leave(
                alarm.bell.ticket, timeout=LEAST_TIMEOUT, departure=Departure.WITHDRAWN
            )
        except BaseException as error:
            self._keeper.sweeper.doom(alarm.bell)
            if isinstance(error, EngineError):
                return None
            raise
        if alarm.rang or not there:
            return self._victim(alarm.parked.ticket.name, "an older one waits for what it holds")
        return None

    async def _arm(self, parked: Kept) -> None:
        """Hold the bell and listen, unless somebody was faster: then it is a wound."""
        bell = self._new(bell_of(self._transaction.stamp), parked, _ARMED)
        self.undo.append(bell)
        if not await obtain(self._keeper, bell, 0.0):
            raise self._victim(parked.ticket.name, "an older one waits for what it holds")
        self._alarm = alarm = _Alarm(bell, parked)
        # At its renewal, should nobody have heard it.
        self._keeper.on_loss(bell, lambda: self._ring(alarm))
        self._keeper.io.spawn(self._listen(alarm), "fencelock-wounds")

    async def _listen(self, alarm: _Alarm) -> None:
        listener = self._new(alarm.bell.ticket.name, alarm.parked, "")
        try:
            await obtain(self._keeper, listener, math.inf)
            await withdraw(self._keeper, listener, LEAST_TIMEOUT)
        except FencelockError:  # closed, or the engine is away: the bell's own renewal will tell
            return
        self._ring(alarm)

    def _ring(self, alarm: _Alarm) -> None:
        if not alarm.over:
            alarm.rang = True
            self._engine.interrupt(alarm.parked.ticket)

    async def _wound(self, stamp: Stamp, parked: Kept) -> None:
        if stamp in self._marks:
            return
        bell = bell_of(stamp)
        mark = self._new(bell, parked, "wound")
        self.undo.append(mark)
        if await obtain(self._keeper, mark, 0.0):
            self._marks[stamp] = mark
            return
        seen = await self._engine.inspect(bell, limit=0, timeout=REQUEST_TIMEOUT)
        if seen.holders and seen.holders[0].owner.data == _ARMED:
            await self._engine.evict(bell, timeout=REQUEST_TIMEOUT)

    def _new(self, bell: str, parked: Kept, note: str) -> Kept:
        owner: Owner = parked.ticket.owner._replace(data=note)
        ticket = Ticket(bell, new_id(), parked.ticket.ttl, owner)
        kept = Kept(ticket, object(), parked.flexible)
        kept.quiet = True  # to lose it is what it is for
        return kept
