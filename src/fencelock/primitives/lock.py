"""Locks: one holder at a time, or several that share, in order of arrival."""

from __future__ import annotations

import logging
import math
from functools import partial
from typing import Any, ClassVar, TypeVar

from fencelock.core.durations import check_timeout
from fencelock.core.errors import EngineError, LockTimeout, StaleFence, Unsupported, WouldDeadlock
from fencelock.core.functions import is_async
from fencelock.core.ticket import ALONE, READING, Share, Ticket
from fencelock.io.blocking import run
from fencelock.primitives.blocks import (
    DEFAULT,
    AsyncBlocks,
    BlockingBlocks,
    Blocks,
    Undo,
    _Default,
    undo_all,
)
from fencelock.primitives.keeper import Keeper
from fencelock.primitives.kept import WITHDRAWN, Kept
from fencelock.primitives.lease import AsyncLease, BaseLease, Lease
from fencelock.primitives.options import LockOptions
from fencelock.primitives.permits import compare_permits, disagreement
from fencelock.primitives.waiting import LEAST_TIMEOUT, new_id, obtain

log = logging.getLogger("fencelock")

L = TypeVar("L", bound=BaseLease)


class BaseLock(Blocks[L]):
    """What a lock is, in both worlds: a recipe for leases. It holds nothing itself."""

    _on_lost_words: ClassVar[tuple[str, ...]] = ()
    _awaits_guard: ClassVar[bool] = False

    def __init__(
        self,
        keeper: Keeper,
        name: str,
        options: LockOptions,
        share: Share = ALONE,
        data: str = "",
    ) -> None:
        super().__init__(keeper)
        owner, ttl, timeout, reentrant, on_lost, guard = options
        self._timeout = math.inf if timeout is None else check_timeout(timeout)
        if on_lost is not None:
            self._check_on_lost(on_lost)
        if guard is not None:
            _check_guard(guard, self._awaits_guard)
        self._plain = on_lost is None and guard is None
        """Whether a lease is done with as soon as it is held, as most are."""
        self.name = name
        self._share = share
        self._guard: Any = guard
        self._flexible = ttl is None
        self._ttl = keeper.default_ttl if ttl is None else ttl
        self._owner = owner._replace(data=data) if data else owner
        self._reentrant = reentrant
        self._on_lost = on_lost
        # Without a reference to this object, which must end as soon as nobody has it: see __del__.
        self._attend = compare_permits(keeper.engine, name, share) if share.permits > 1 else None

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name!r}>"

    def _check_on_lost(self, on_lost: object) -> None:
        if is_async(on_lost):
            raise TypeError("on_lost must be a plain function: nobody would await a coroutine")
        if not (callable(on_lost) or on_lost in self._on_lost_words):
            raise TypeError(
                "on_lost must be a function that takes the lease, or with asyncio 'cancel', "
                f"not {on_lost!r}"
            )

    def _limit(self, timeout: float | _Default | None) -> float:
        return self._timeout if isinstance(timeout, _Default) else check_timeout(timeout)

    def _ticket(self, undo: list[Undo], *, waits: bool) -> Kept:
        """A new ticket, or the one with which the caller already holds the lock, if it may once more.

        `undo` learns how to undo all that comes of it, if the caller can't have it.
        """
        keeper, io = self._keeper, self._keeper.io
        io.verify()
        if keeper.closing:
            keeper.verify()
        caller = io.caller()
        held = keeper.mine.get((self.name, caller))
        if held is not None and keeper.is_good(held):
            if self._reentrant and held.ticket.share in (ALONE, self._share):
                undo.append(partial(setattr, held, "depth", held.depth))
                held.depth += 1
                return held
            if waits:
                self._refuse_to_wait_for(held.ticket.share)
        return self._new(caller, undo)

    async def _join(
        self, caller: object, timeout: float, undo: list[Undo], *, floor: int = 0
    ) -> Kept | None:
        kept = self._new(caller, undo, floor)
        return kept if await obtain(self._keeper, kept, timeout, self._attend) else None

    def _new(self, caller: object, undo: list[Undo], floor: int = 0) -> Kept:
        """A ticket of which nobody has heard yet."""
        ticket = (self.name, new_id(), self._ttl, self._owner, self._share, floor)
        # Past the constructor of named tuples, which is written in Python.
        kept = Kept(tuple.__new__(Ticket, ticket), caller, self._flexible)
        undo.append(kept)
        return kept

    def _refuse_to_wait_for(self, held: Share) -> None:
        """Raise, for the caller has it itself; but of a semaphore one may take several permits."""
        if self._share.permits > 1 and held.group == self._share.group:
            return
        if held == READING and self._share == ALONE:
            raise WouldDeadlock(
                f"this very thread or task reads {self.name!r}, and a reader can't turn writer: two that "
                "try it wait for each other for ever. Release the read lease first, or begin with "
                "write() and use lease.downgrade() when the writing is done",
                name=self.name,
            )
        raise WouldDeadlock(
            f"{self.name!r} is already held by this very thread or task, so waiting for it would "
            "never end: pass the lease along, or use reentrant=True",
            name=self.name,
        )

    async def _heal(self, lease: L, stale: StaleFence, timeout: float, undo: list[Undo]) -> Kept:
        """Take the lock again, above the newest fence that the storage has seen.

        We hold the lock, as far as our engine knows. So it has forgotten fences that it gave before; or there
        are two of it, and the other one has a holder of its own (a split brain). We can't tell which. In both
        cases the storage then accepts our fence and refuses the lower one.
        """
        lease.check()
        if stale.newest < lease.fence:
            raise stale
        if not self._keeper.engine.traits.accepts_floor:
            stale.add_note(
                "The lock is held, so the engine has forgotten fences that it gave before, and it "
                "numbers by itself: see its page on what to do after a backup was restored."
            )
            raise stale
        log.warning(
            "the engine gave fence %d for %r, and the storage has seen %d: taking it again above that",
            lease.fence,
            self.name,
            stale.newest,
        )
        await lease._release()
        kept = await self._join(lease._kept.caller, timeout, undo, floor=stale.newest)
        if kept is None:
            raise await self._timed_out(timeout)
        return kept

    def _watched(self, lease: L) -> L:
        if callable(self._on_lost) and lease._kept.depth == 1:
            callback = self._on_lost
            self._keeper.on_loss(lease._kept, lambda: callback(lease))
        return lease

    def _wants_barrier(self, lease: L) -> bool:
        """Whether older holders are to be kept out of the storage now: not again when re-entering."""
        return self._guard is not None and lease._kept.depth == 1

    async def _timed_out(self, timeout: float) -> LockTimeout:
        """The error to raise; says who holds the lock, if the engine still answers."""
        waited = (
            f"could not get {self.name!r} within {timeout:g} s"
            if timeout
            else f"{self.name!r} is not free"
        )
        try:
            seen = await self._keeper.engine.inspect(self.name, limit=0, timeout=LEAST_TIMEOUT)
        except EngineError:
            return LockTimeout(waited, name=self.name)
        if not seen.holders:
            return LockTimeout(f"{waited}: it changed hands in the meantime", name=self.name)
        holder, *others = seen.holders
        more = f" and {len(others)} more" if others else ""
        ahead = f", {seen.waiting} waiting" if seen.waiting else ""
        return LockTimeout(
            f"{waited}: held by {holder.owner}{more} for {holder.held_for:.1f} s "
            f"(fence {holder.fence}{ahead}){disagreement(self._share, seen)}",
            name=self.name,
            holder=holder,
        )


class Lock(BaseLock[Lease], BlockingBlocks[Lease]):
    """A lock on a name. Reusable, and safe to share between threads."""

    # `acquire` is written out, for it is called often: `_acquire` would be one call more.

    def acquire(self, timeout: float | _Default | None = DEFAULT) -> Lease:
        """Wait for the lock and hold it; `LockTimeout` after `timeout` seconds, None waits for ever."""
        undo: list[Undo] = []
        try:
            return self._acquired(undo, timeout)
        except BaseException:
            undo_all(self._keeper, undo)
            raise

    def try_acquire(self) -> Lease | None:
        """Hold the lock if it is free at this moment, else None. Never waits."""
        undo: list[Undo] = []
        try:
            return self._tried(undo)
        except BaseException:
            undo_all(self._keeper, undo)
            raise

    def _acquired(self, undo: list[Undo], timeout: float | _Default | None = DEFAULT) -> Lease:
        limit = self._timeout if timeout is DEFAULT else self._limit(timeout)
        kept = self._ticket(undo, waits=True)
        if not kept.admitted and not run(obtain(self._keeper, kept, limit, self._attend)):
            raise run(self._timed_out(limit))
        return Lease(self._keeper, kept) if self._plain else self._lease(kept, limit, undo)

    def _tried(self, undo: list[Undo]) -> Lease | None:
        kept = self._ticket(undo, waits=False)
        if not kept.admitted and not run(obtain(self._keeper, kept, 0.0)):
            return None
        try:
            return self._lease(kept, 0.0, undo)
        except LockTimeout:  # it had to be taken again, and somebody was there first
            return None

    def _lease(self, kept: Kept, limit: float, undo: list[Undo]) -> Lease:
        lease = self._watched(Lease(self._keeper, kept))
        if self._wants_barrier(lease):
            try:
                self._guard.raise_fence(lease)
            except StaleFence as stale:
                kept = run(self._heal(lease, stale, limit, undo))
                lease = self._watched(Lease(self._keeper, kept))
                self._guard.raise_fence(lease)
            lease.check()  # it may have taken long
        return lease


class AsyncLock(BaseLock[AsyncLease], AsyncBlocks[AsyncLease]):
    """A lock on a name. Reusable, and safe to share between tasks."""

    _on_lost_words = ("cancel",)
    _awaits_guard = True

    async def acquire(self, timeout: float | _Default | None = DEFAULT) -> AsyncLease:
        """Wait for the lock and hold it; `LockTimeout` after `timeout` seconds, None waits for ever."""
        limit = self._timeout if timeout is DEFAULT else self._limit(timeout)
        kept = self._ticket([], waits=True)
        if not kept.admitted and not await obtain(self._keeper, kept, limit, self._attend):
            raise await self._timed_out(limit)
        if self._plain:
            return AsyncLease(self._keeper, kept)
        return await self._barred(self._lease(kept), limit)

    _acquire = acquire  # for `async with`

    async def try_acquire(self) -> AsyncLease | None:
        """Hold the lock if it is free at this moment, else None. Never waits."""
        kept = self._ticket([], waits=False)
        try:
            if not kept.admitted and not await obtain(self._keeper, kept, 0.0):
                return None
            return await self._barred(self._lease(kept), 0.0)
        except LockTimeout:  # it had to be taken again, and somebody was there first
            return None

    async def _barred(self, lease: AsyncLease, limit: float) -> AsyncLease:
        if self._wants_barrier(lease):
            try:
                try:
                    await self._guard.raise_fence(lease)
                except StaleFence as stale:
                    kept = await self._heal(lease, stale, limit, [])
                    lease = self._lease(kept)
                    await self._guard.raise_fence(lease)
                lease.check()  # it may have taken long
            except BaseException:
                self._keeper.give_up(lease._kept, WITHDRAWN)
                raise
        return lease

    def _lease(self, kept: Kept) -> AsyncLease:
        lease = self._watched(AsyncLease(self._keeper, kept))
        lease._cancels = self._on_lost == "cancel" and kept.depth == 1
        return lease


def _check_guard(guard: Any, awaits: bool) -> None:
    act = getattr(guard, "raise_fence", None)
    if not callable(act):
        raise TypeError(f"a guard must have raise_fence(lease), but {guard!r} has none")
    if is_async(act) is not awaits:
        kind, other = ("AsyncClient", "Async…") if awaits else ("Client", "plain")
        raise TypeError(f"{type(guard).__name__} is not for {kind}: use the {other} guard")
    if not getattr(guard, "acts_alone", True):
        raise Unsupported(
            "this guard can't raise the fence by itself: one for SQL needs open=…, one for Redis or "
            "an object store keys=…"
        )
