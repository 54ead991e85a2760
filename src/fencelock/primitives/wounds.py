"""wound-wait: an older transaction wounds the younger ones ahead, and these give way.

A wound never moves ownership: the wounded transaction releases by itself, at the latest when it would wait.
It learns of the wound by its *bell*, a name that each attempt of a transaction has. While the transaction
waits, it holds its bell, and a second ticket of it waits behind that: the attacker evicts the first one, and
that wakes the second. While the transaction does not wait, the attacker takes the bell itself, and the
transaction finds it taken before it sleeps the next time.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from fencelock.core.deadlock import Stamp, bell_of, to_wound
from fencelock.core.errors import DeadlockVictim, EngineError, FencelockError
from fencelock.core.ticket import Departure, Owner, Ticket
from fencelock.primitives.claim import WITHDRAWN, Claim
from fencelock.primitives.policies import Policy
from fencelock.primitives.sweeper import REQUEST_TIMEOUT
from fencelock.primitives.waiting import MIN_TIMEOUT, new_id, obtain, withdraw

if TYPE_CHECKING:
    from fencelock.primitives.transaction import BaseTransaction

_ARMED = "armed"


class _Alarm:
    """The bell of a transaction that waits, and the claim that it waits with."""

    def __init__(self, bell: Claim, parked: Claim) -> None:
        self.bell = bell
        self.parked = parked
        self.over = False
        self.rang = False


class WoundWait(Policy):
    """Wound every younger transaction ahead, then wait."""

    def __init__(self, transaction: BaseTransaction[Any]) -> None:
        super().__init__(transaction)
        self._alarm: _Alarm | None = None
        self._marks: dict[Stamp, Claim] = {}
        """The bells that we have taken, of the transactions that we wounded."""

    async def attend(self, claim: Claim) -> float:
        others = await self._ahead(claim)
        if self._alarm is None:
            await self._arm(claim)
        for stamp in to_wound(self._transaction.stamp, (stamp for _, stamp in others)):
            await self._wound(stamp, claim)
        if self._alarm is not None and self._alarm.rang:
            raise self._victim(claim.ticket.name, "an older one waits for what it holds")
        return math.inf

    async def settle(self) -> DeadlockVictim | None:
        alarm, self._alarm = self._alarm, None
        marks, self._marks = self._marks, {}
        for mark in marks.values():
            await withdraw(mark, 0.0)
        if alarm is None:
            return None
        alarm.over = True  # before it leaves: that wakes the listener
        bell, context = alarm.bell, alarm.bell.context
        context.forget(bell)
        bell.ended(WITHDRAWN)
        try:
            there = await context.engine.leave(
                bell.ticket, timeout=MIN_TIMEOUT, departure=Departure.WITHDRAWN
            )
        except BaseException as error:
            context.sweeper.doom(bell)
            if isinstance(error, EngineError):
                return None
            raise
        if alarm.rang or not there:
            return self._victim(alarm.parked.ticket.name, "an older one waits for what it holds")
        return None

    async def _arm(self, parked: Claim) -> None:
        """Hold the bell and listen. If another transaction holds it already, that is a wound."""
        bell = self._new(bell_of(self._transaction.stamp), parked, _ARMED)
        self.undo.append(bell)
        if not await obtain(bell, 0.0):
            raise self._victim(parked.ticket.name, "an older one waits for what it holds")
        self._alarm = alarm = _Alarm(bell, parked)
        # If the listener misses it, the bell's own renewal tells.
        bell.context.on_loss(bell, lambda: _ring(alarm))
        bell.context.io.spawn(self._listen(alarm), "fencelock-wounds")

    async def _listen(self, alarm: _Alarm) -> None:
        listener = self._new(alarm.bell.ticket.name, alarm.parked, "")
        try:
            await obtain(listener, math.inf)
            await withdraw(listener, MIN_TIMEOUT)
        except FencelockError:  # closed, or the engine is away: the bell's own renewal tells
            return
        _ring(alarm)

    async def _wound(self, stamp: Stamp, parked: Claim) -> None:
        if stamp in self._marks:
            return
        bell = bell_of(stamp)
        mark = self._new(bell, parked, "wound")
        self.undo.append(mark)
        if await obtain(mark, 0.0):
            self._marks[stamp] = mark
            return
        engine = parked.context.engine
        seen = await engine.inspect(bell, limit=0, timeout=REQUEST_TIMEOUT)
        if seen.holders and seen.holders[0].owner.data == _ARMED:
            await engine.evict(bell, timeout=REQUEST_TIMEOUT)

    def _new(self, bell: str, parked: Claim, data: str) -> Claim:
        owner: Owner = parked.ticket.owner._replace(data=data)
        ticket = Ticket(bell, new_id(), parked.ticket.ttl, owner)
        return Claim(parked.context, ticket, object(), parked.flexible, internal=True)


def _ring(alarm: _Alarm) -> None:
    if not alarm.over:
        alarm.rang = True
        parked = alarm.parked
        parked.context.engine.interrupt(parked.ticket)
