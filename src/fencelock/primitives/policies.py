"""Who gives way when transactions would wait in a circle. `core/deadlock` has the rules.

A policy goes along with each lock that a transaction waits for: `attend` is called each time before it
sleeps, `settle` when the waiting is over, however it ended.
"""

from __future__ import annotations

import math
import weakref
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from fencelock.core.deadlock import POLICIES, Stamp, ahead, must_die
from fencelock.core.errors import DeadlockVictim, LockTimeout, Unsupported, WouldDeadlock
from fencelock.core.ticket import Contender, Inspection
from fencelock.primitives.blocks import Undo
from fencelock.primitives.keeper import Keeper
from fencelock.primitives.kept import Kept
from fencelock.primitives.sweeper import REQUEST_TIMEOUT

if TYPE_CHECKING:
    from fencelock.primitives.transaction import BaseTransaction

_ALL = 100_000
"""As many waiters as there may be: nobody ahead must be missed."""


class Policy:
    """Nobody gives way."""

    def __init__(self, transaction: BaseTransaction[Any], keeper: Keeper) -> None:
        # It must end as soon as nobody has it, and not when garbage is collected: see its __del__.
        self._transaction: BaseTransaction[Any] = weakref.proxy(transaction)
        self._keeper = keeper
        self._engine = keeper.engine
        self._now = keeper.io.now
        self.undo: list[Undo] = []
        """What to undo if the lock can't be had: a policy adds the tickets of its own."""

    def allow(self, name: str, held: Sequence[str]) -> None:
        """Raise if this name must not be asked for now."""

    def patience(self, left: float) -> float:
        """How long to wait for one lock."""
        return left

    def impatient(self, error: LockTimeout, early: bool) -> Exception:
        """What to raise when that time is up; `early`: and the caller's own is not."""
        return error

    async def attend(self, kept: Kept) -> float:
        """Look at those ahead before sleeping; raises if this transaction has to give way."""
        return math.inf

    async def settle(self) -> DeadlockVictim | None:
        """End what was done for the waiting. Returns an error if this transaction has to give way."""
        return None

    async def _inspect(self, name: str) -> Inspection:
        return await self._engine.inspect(name, limit=_ALL, timeout=REQUEST_TIMEOUT)

    async def _ahead(self, kept: Kept) -> list[tuple[Contender, Stamp]]:
        if not self._transaction.age:
            self._transaction.age = kept.fence
        return ahead(await self._inspect(kept.ticket.name), kept.fence)

    def _victim(self, name: str, why: str, cycle: Sequence[Any] = ()) -> DeadlockVictim:
        return DeadlockVictim(
            f"transaction {self._transaction.id} has to give up {name!r} and all it holds, and to be "
            f"tried again: {why}",
            name=name,
            transaction=self._transaction.id,
            cycle=tuple(cycle),
        )


class Ordered(Policy):
    """Names are taken in alphabetical order, or not at all."""

    def allow(self, name: str, held: Sequence[str]) -> None:
        if held and name < max(held):
            raise WouldDeadlock(
                f"{name!r} comes before {max(held)!r}, which this transaction holds already: take locks "
                "in alphabetical order, or choose another policy",
                name=name,
            )


class Timeout(Policy):
    """Whoever waits for long gives way; each time it waits longer, and nobody waits equally long."""

    DOUBLED = 4
    """How often: then it waits sixteen times as long as at first."""

    def patience(self, left: float) -> float:
        if not self._transaction.names:  # who holds nothing is in nobody's way
            return left
        patience: float = self._transaction.patience * 2 ** min(
            self._transaction.attempts - 1, self.DOUBLED
        )
        return min(left, patience * (0.5 + self._keeper.io.random.random() / 2))

    def impatient(self, error: LockTimeout, early: bool) -> Exception:
        if not early:
            return error
        victim = self._victim(error.name or "", f"it has waited too long ({error})")
        victim.__cause__ = error
        return victim


class WaitDie(Policy):
    """Wait only if older than everyone ahead, else give way at once."""

    _compared = 0

    async def attend(self, kept: Kept) -> float:
        if kept.fence != self._compared:  # later on, nobody can come ahead
            others = await self._ahead(kept)
            mine = self._transaction.stamp
            if self._transaction.names and must_die(mine, (stamp for _, stamp in others)):
                older = next(one for one, stamp in others if stamp.older_than(mine))
                raise self._victim(kept.ticket.name, f"an older one is ahead, of {older.owner}")
            self._compared = kept.fence
        return math.inf


def choose(
    name: str, transaction: BaseTransaction[Any], keeper: Keeper, kinds: dict[str, type[Policy]]
) -> Policy:
    """The policy of that name, if the engine can do it."""
    if name not in POLICIES:
        raise ValueError(f"policy must be one of {', '.join(POLICIES)}, not {name!r}")
    traits = keeper.engine.traits
    if not (traits.fenced_while_waiting and traits.fifo) and name not in ("timeout", "ordered"):
        raise Unsupported(
            f"this engine does not show who stands ahead of whom, which {name!r} needs: use 'timeout' or "
            "'ordered', or an engine that keeps a queue"
        )
    return kinds[name](transaction, keeper)
