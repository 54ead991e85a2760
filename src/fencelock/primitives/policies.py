"""Which transaction gives way when transactions would wait in a circle. `core/deadlock` has the rules.

A policy is asked for each lock that a transaction waits for: `attend` each time before the transaction
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
from fencelock.primitives.claim import Claim
from fencelock.primitives.context import Context
from fencelock.primitives.contexts import Contexts
from fencelock.primitives.sweeper import REQUEST_TIMEOUT

if TYPE_CHECKING:
    from fencelock.primitives.transaction import BaseTransaction

_ALL = 100_000
"""As many waiters as there may be: no transaction ahead must be missed."""


class Policy:
    """No transaction gives way."""

    def __init__(self, transaction: BaseTransaction[Any]) -> None:
        # A proxy, because the transaction must end with its last user, and not when garbage is collected: see
        # its `__del__`.
        self._transaction: BaseTransaction[Any] = weakref.proxy(transaction)
        self.undo: list[Undo] = []
        """What to undo if the lock can't be had: a policy adds its own claims."""

    @property
    def _context(self) -> Context:
        return self._transaction._context

    def allow(self, name: str, held: Sequence[str]) -> None:
        """Raise if this name must not be asked for now."""

    def patience(self, left: float) -> float:
        """How long to wait for one lock."""
        return left

    def impatient(self, error: LockTimeout, early: bool) -> Exception:
        """The error to raise when that time is up. `early`: the caller itself would wait longer."""
        return error

    async def attend(self, claim: Claim) -> float:
        """Look at the transactions ahead before sleeping. Raises if this one has to give way."""
        return math.inf

    async def settle(self) -> DeadlockVictim | None:
        """Undo what was done for the waiting. Returns an error if this transaction has to give way."""
        return None

    async def _inspect(self, name: str) -> Inspection:
        return await self._context.engine.inspect(name, limit=_ALL, timeout=REQUEST_TIMEOUT)

    async def _ahead(self, claim: Claim) -> list[tuple[Contender, Stamp]]:
        if not self._transaction.age:
            self._transaction.age = claim.fence
        return ahead(await self._inspect(claim.ticket.name), claim.fence)

    def _victim(self, name: str, why: str, cycle: Sequence[Any] = ()) -> DeadlockVictim:
        return DeadlockVictim(
            f"transaction {self._transaction.id} has to give up {name!r} and all that it holds, and start "
            f"again: {why}",
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
    """A transaction that waits for long gives way. Each time it waits longer, and by a random part."""

    MAX_DOUBLINGS = 4
    """Then it waits sixteen times as long as at first."""

    def patience(self, left: float) -> float:
        if not self._transaction.names:  # without a lock it stands in no way
            return left
        patience: float = self._transaction.patience * 2 ** min(
            self._transaction.attempts - 1, self.MAX_DOUBLINGS
        )
        return min(left, patience * (0.5 + self._context.io.random.random() / 2))

    def impatient(self, error: LockTimeout, early: bool) -> Exception:
        if not early:
            return error
        victim = self._victim(error.name or "", f"it has waited too long ({error})")
        victim.__cause__ = error
        return victim


class WaitDie(Policy):
    """Wait only if older than every transaction ahead, else give way at once."""

    _compared = 0

    async def attend(self, claim: Claim) -> float:
        if claim.fence != self._compared:  # later on, no ticket can come ahead of it
            others = await self._ahead(claim)
            mine = self._transaction.stamp
            if self._transaction.names and must_die(mine, (stamp for _, stamp in others)):
                older = next(one for one, stamp in others if stamp.older_than(mine))
                raise self._victim(claim.ticket.name, f"an older one is ahead, of {older.owner}")
            self._compared = claim.fence
        return math.inf


def choose(
    name: str, transaction: BaseTransaction[Any], contexts: Contexts, kinds: dict[str, type[Policy]]
) -> Policy:
    """The policy of that name, if the engine supports it."""
    if name not in POLICIES:
        raise ValueError(f"policy must be one of {', '.join(POLICIES)}, not {name!r}")
    traits = contexts.traits
    if not (traits.fenced_while_waiting and traits.fifo) and name not in ("timeout", "ordered"):
        raise Unsupported(
            f"this engine does not show the order of its waiters, which {name!r} needs: use 'timeout' or "
            "'ordered', or an engine that keeps a queue"
        )
    return kinds[name](transaction)
