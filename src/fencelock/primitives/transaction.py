"""Transactions: several locks, taken step by step, without deadlock.

If transactions would wait for each other in a circle, one of them gives up everything and is tried again.
`policies` decides which.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Generic, TypeVar

from fencelock.core.backoff import Backoff
from fencelock.core.deadlock import Stamp
from fencelock.core.durations import Duration, check_positive, check_timeout
from fencelock.core.errors import DeadlockVictim, FencelockError, LeaseLost
from fencelock.core.function_kind import is_async
from fencelock.io.blocking import run
from fencelock.primitives.blocks import Undo, undo_all
from fencelock.primitives.call_site import call_site
from fencelock.primitives.context import Context
from fencelock.primitives.contexts import Contexts
from fencelock.primitives.cycles import Detect
from fencelock.primitives.holding import AsyncHolding, BlockingHolding, Holding, release_all
from fencelock.primitives.lease import AsyncLease, BaseLease, Lease
from fencelock.primitives.lock import BaseLock
from fencelock.primitives.policies import Ordered, Policy, Timeout, WaitDie, choose
from fencelock.primitives.waiting import new_id, obtain
from fencelock.primitives.wounds import WoundWait

L = TypeVar("L", bound=BaseLease)
T = TypeVar("T")


_KINDS: dict[str, type[Policy]] = {
    "wait-die": WaitDie,
    "wound-wait": WoundWait,
    "timeout": Timeout,
    "ordered": Ordered,
    "detect": Detect,
}


class BaseTransaction(Holding, Generic[L]):
    """What a transaction is, blocking or not."""

    _lease: type[L]

    def __init__(
        self,
        contexts: Contexts,
        make: Callable[[str, str], BaseLock[L]],
        *,
        policy: str,
        timeout: Duration | None,
        attempts: int,
        patience: Duration,
    ) -> None:
        if type(attempts) is not int or attempts < 1:
            raise ValueError(f"attempts must be a whole number, one or more, not {attempts!r}")
        self._contexts = contexts
        self._make = make
        self._timeout = check_timeout(timeout)
        self._most = attempts
        self.patience = check_positive("patience", patience)
        self.attempts = 1
        """How often it was tried, this time included."""
        self.id = new_id()[:16]
        self.age = 0
        """The fence of its first ticket: the lower, the older. 0 if it had no ticket yet."""
        self._leases: dict[str, L] = {}
        self._in_block = False
        self._until: float | None = None
        self._backoff: Backoff | None = None
        self._policy = choose(policy, self, contexts, _KINDS)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.id}, attempt {self.attempts}: {list(self._leases)}>"

    @property
    def _context(self) -> Context:
        return self._contexts.here()

    @property
    def stamp(self) -> Stamp:
        """What other transactions know of this attempt."""
        return Stamp(self.id, self.attempts, self.age)

    @property
    def names(self) -> list[str]:
        """The names that it holds now, in the order in which it took them."""
        return list(self._leases)

    async def _take(self, name: str, undo: list[Undo]) -> L:
        """Hold one more lock until the end of the transaction."""
        lock = self._make(name, self.stamp.pack())
        if lock.name in self._leases:
            return self._leases[lock.name]
        context = self._context
        context.verify()
        self._policy.allow(lock.name, self.names)
        caller = context.io.caller()
        if (held := context.held_by(lock.name, caller)) is not None:
            lock._refuse_to_wait_for(held.ticket.share)
        claim = lock._new(context, caller, undo)
        self._policy.undo = undo
        left = self._left(context.io.now())
        wounded: DeadlockVictim | None = None
        try:
            patience = self._policy.patience(left)
            if not await obtain(claim, patience, self._policy.attend):
                raise self._policy.impatient(await lock._timed_out(patience), patience < left)
        finally:
            if not self.age:
                self.age = claim.fence
            wounded = await self._policy.settle()
        if wounded is not None:
            raise wounded
        lease = self._leases[lock.name] = lock._watched(self._lease(claim))
        lease._site = call_site()
        undo.clear()  # the transaction is responsible now
        return lease

    def _left(self, now: float) -> float:
        if self._until is None:
            self._until = now + self._timeout
        return max(0.0, self._until - now)

    async def _release(self) -> None:
        """Release everything, the last lock first."""
        try:
            await release_all(list(self._leases.values()))
        except BaseException:
            self._give_up()
            raise
        self._leases.clear()

    def _give_up(self) -> None:
        for lease in list(self._leases.values()):
            lease._give_up()
        self._leases.clear()

    def __del__(self) -> None:
        # Interrupted when the `with` block was about to be left: as in `Blocks`.
        if self.__dict__.get("_in_block"):
            for lease in self._leases.values():
                lease._context.soon(lease._give_up)

    async def _again(self, victim: DeadlockVictim) -> None:
        """Wait a moment after it has given up everything. It stays as old as before."""
        if self.attempts >= self._most:
            victim.add_note(f"That was attempt {self.attempts}, and the last one.")
            raise victim
        io = self._context.io
        self._backoff = self._backoff or Backoff(0.01, 1.0, io.random)
        pause = self._backoff.next()
        if pause >= self._left(io.now()):
            raise victim
        self.attempts += 1
        await io.event().wait(pause)

    def _check_idle(self) -> None:
        if self._leases:
            raise FencelockError("this transaction is under way: make one for each piece of work")


class Transaction(BaseTransaction[Lease], BlockingHolding):
    """Locks that are acquired one after the other and released together."""

    _lease = Lease

    def lock(self, name: str) -> Lease:
        """Hold a lock until the end of the transaction; `DeadlockVictim` if it has to be given up."""
        undo: list[Undo] = []
        try:
            return run(self._take(name, undo))
        except BaseException:
            undo_all(undo)
            raise

    def __enter__(self) -> Transaction:
        self._in_block = True
        return self

    def run(self, work: Callable[[Transaction], T]) -> T:
        """Do the work in this transaction. If it has to give way, start again from the beginning."""
        if is_async(work):
            raise TypeError("a coroutine function needs the transaction of an AsyncClient")
        self._check_idle()
        try:
            while True:
                try:
                    with self:
                        return work(self)
                except DeadlockVictim as victim:
                    if victim.transaction != self.id:
                        raise
                    run(self._again(victim))
        except BaseException:
            self._give_up()  # interrupted on the way out
            raise


class AsyncTransaction(BaseTransaction[AsyncLease], AsyncHolding):
    """Locks that are acquired one after the other and released together."""

    _lease = AsyncLease
    _cancels = False
    _canceller = None

    async def lock(self, name: str) -> AsyncLease:
        """Hold a lock until the end of the transaction; `DeadlockVictim` if it has to be given up."""
        undo: list[Undo] = []
        try:
            return await self._take(name, undo)
        except BaseException:
            undo_all(undo)
            raise

    async def run(self, work: Callable[[AsyncTransaction], Awaitable[T]]) -> T:
        """Do the work in this transaction. If it has to give way, start again from the beginning."""
        self._check_idle()
        while True:
            try:
                async with self:
                    return await work(self)
            except DeadlockVictim as victim:
                if victim.transaction != self.id:
                    raise
                await self._again(victim)

    # The leases have no `on_lost`, so there is nothing to cancel.

    def _loss(self) -> LeaseLost | None:
        return None

    def _on_loss(self, callback: Callable[[], Any]) -> None:
        pass
