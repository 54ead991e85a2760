"""Locks: one holder at a time, or several that share, in order of arrival."""

from __future__ import annotations

import logging
import math
import weakref
from collections.abc import Iterable
from functools import partial
from os import urandom
from sys import _getframe
from typing import TYPE_CHECKING, Any, ClassVar, Never, TypeVar

from fencelock.core.durations import Duration, check_timeout
from fencelock.core.errors import EngineError, LockTimeout, StaleFence, Unsupported, WouldDeadlock
from fencelock.core.function_kind import is_async
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
from fencelock.primitives.bounded import BoundedClaim
from fencelock.primitives.call_site import call_site, call_stack
from fencelock.primitives.claim import WITHDRAWN, Claim
from fencelock.primitives.context import Context
from fencelock.primitives.contexts import Contexts
from fencelock.primitives.lease import AsyncLease, BaseLease, Lease
from fencelock.primitives.options import UNGUARDED, LockOptions
from fencelock.primitives.permits import compare_permits, disagreement
from fencelock.primitives.sweeper import REQUEST_TIMEOUT
from fencelock.primitives.waiting import MIN_TIMEOUT, obtain

log = logging.getLogger("fencelock.lease")

L = TypeVar("L", bound=BaseLease)


class BaseLock(Blocks[L]):
    """What a lock is, blocking or not: a recipe for leases. It holds nothing itself."""

    _on_lost_words: ClassVar[tuple[str, ...]] = ()
    _awaits_guard: ClassVar[bool] = False

    def __init__(
        self,
        contexts: Contexts,
        name: str,
        options: LockOptions,
        share: Share = ALONE,
        data: str = "",
    ) -> None:
        super().__init__(contexts)
        owner, ttl, timeout, reentrant, on_lost, guard, renew, max_hold, warn_after = options
        self._timeout = math.inf if timeout is None else check_timeout(timeout)
        if on_lost is not None:
            self._check_on_lost(on_lost)
        if guard is not None:
            guard = _checked_guard(guard, self._awaits_guard)
        bounded = max_hold is not None or not renew
        self._plain = on_lost is None and guard is None and warn_after is None and not bounded
        """Whether nothing more has to be done once the lease is held."""
        self.name = name
        self._share = share
        self._guard: Any = guard
        self._flexible = ttl is None
        self._ttl = contexts.default_ttl if ttl is None else ttl
        self._owner = owner._replace(data=data) if data else owner
        self._reentrant = reentrant
        self._on_lost = on_lost
        self._warn_after = warn_after
        self._renew = renew
        self._max_hold = max_hold
        self._kind = BoundedClaim if bounded else Claim
        # It has no reference to this object, which must end with its last user: see `Blocks.__del__`.
        self._attend = compare_permits() if share.permits > 1 else None

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name!r}>"

    if not TYPE_CHECKING:

        def __getattr__(self, name):
            from fencelock.primitives.habits import OF_LOCKS, unknown  # only mistakes need it

            raise unknown(self, name, OF_LOCKS)

    def _check_on_lost(self, on_lost: object) -> None:
        if is_async(on_lost):
            raise TypeError("on_lost must be a plain function: nothing would await a coroutine")
        if not (callable(on_lost) or on_lost in self._on_lost_words):
            raise TypeError(
                "on_lost must be a function that takes the lease, or with asyncio 'cancel', "
                f"not {on_lost!r}"
            )

    def _limit(self, timeout: Duration | _Default | None) -> float:
        return self._timeout if isinstance(timeout, _Default) else check_timeout(timeout)

    def _claim(self, undo: list[Undo], *, waits: bool) -> Claim:
        """A new claim. If the caller holds the lock already and may enter it again: the claim that it holds.

        Adds to `undo` what undoes all that comes of it.
        """
        context = self._contexts.current or self._contexts.here()
        if context.closing:
            context.verify()
        caller = context.io.caller()
        held = context.held.get((self.name, caller))
        if held is not None and held.is_good():
            if self._reentrant and held.ticket.share in (ALONE, self._share):
                undo.append(partial(setattr, held, "depth", held.depth))
                held.depth += 1
                return held
            if waits:
                self._refuse_to_wait_for(held.ticket.share)
        return self._new(context, caller, undo)

    async def _join(
        self, context: Context, caller: object, timeout: float, undo: list[Undo], *, floor: int = 0
    ) -> Claim | None:
        claim = self._new(context, caller, undo, floor)
        return claim if await obtain(claim, timeout, self._attend) else None

    def _new(self, context: Context, caller: object, undo: list[Undo], floor: int = 0) -> Claim:
        """A claim with a ticket that the engine does not know yet."""
        owner = self._owner
        if owner.pid != context.pid:  # this lock was made before a fork
            owner = self._owner = context.owned(owner)
        # The hot path: `new_id` written out, and the constructor of named tuples avoided, which is Python.
        ticket = (self.name, urandom(16).hex(), self._ttl, owner, self._share, floor)
        claim = self._kind(context, tuple.__new__(Ticket, ticket), caller, self._flexible)
        undo.append(claim)
        return claim

    def _refuse_to_wait_for(self, held: Share) -> None:
        """Raise, because the caller holds it itself. But a caller may take several permits of a semaphore."""
        if self._share.permits > 1 and held.group == self._share.group:
            return
        if held == READING and self._share == ALONE:
            raise WouldDeadlock(
                f"this thread or task reads {self.name!r}, and a reader can't become a writer: two readers "
                "that try it would wait for each other for ever. Release the read lease first, or start "
                "with write() and use lease.downgrade() when the writing is done",
                name=self.name,
            )
        raise WouldDeadlock(
            f"{self.name!r} is already held by this thread or task, so waiting for it would "
            "never end: pass the lease along, or use reentrant=True",
            name=self.name,
        )

    async def _heal(self, lease: L, stale: StaleFence, timeout: float, undo: list[Undo]) -> Claim:
        """Take the lock again, with a fence above the newest one that the storage has seen.

        We hold the lock, as far as our engine knows. So the engine has forgotten fences that it gave before;
        or it is split in two, and the other half has a holder of its own. We can't tell which. In both cases
        the storage then accepts our fence and refuses the lower one.
        """
        lease.check()
        if stale.newest < lease.fence:
            raise stale
        if not self._contexts.traits.accepts_floor:
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
        context, caller = lease._context, lease._caller
        claim = await self._join(context, caller, timeout, undo, floor=stale.newest)
        if claim is None:
            raise await self._timed_out(timeout)
        return claim

    async def _locked(self) -> bool:
        engine = self._contexts.here().engine
        seen = await engine.inspect(self.name, limit=0, timeout=REQUEST_TIMEOUT)
        return bool(seen.holders)

    def _watched(self, lease: L) -> L:
        claim, callback = lease._claim, self._on_lost
        if isinstance(claim, BoundedClaim) and claim.depth == 1:
            claim.context.bound(claim, renews=self._renew, max_hold=self._max_hold)
        if self._warn_after is not None and claim.depth == 1:
            claim.context.warn_if_slow(claim, self._warn_after, call_stack())
        if callable(callback) and claim.depth == 1:
            # The context must not keep the lease object alive: `BaseLease.__del__` has to notice its end.
            known, kind = weakref.ref(lease), type(lease)

            def tell() -> None:
                left = known()
                callback(kind(claim) if left is None else left)

            lease._on_loss(tell)
        return lease

    def _wants_barrier(self, lease: L) -> bool:
        """Whether to keep older holders out of the storage now: not again when the lock is entered again."""
        return self._guard is not None and lease._claim.depth == 1

    async def _timed_out(self, timeout: float) -> LockTimeout:
        """The error to raise. It names the holder, if the engine still answers."""
        waited = (
            f"could not get {self.name!r} within {timeout:g} s"
            if timeout
            else f"{self.name!r} is not free"
        )
        try:
            engine = self._contexts.here().engine
            seen = await engine.inspect(self.name, limit=0, timeout=MIN_TIMEOUT)
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

    # `acquire` repeats `_acquire`: a call less on the hot path.

    def acquire(self, timeout: Duration | _Default | None = DEFAULT, **habits: Never) -> Lease:
        """Wait for the lock and hold it; `LockTimeout` after `timeout` seconds, None waits for ever."""
        if habits:
            raise _refused(habits)
        undo: list[Undo] = []
        try:
            lease = self._acquired(undo, timeout)
            frame = _getframe(1)  # as `call_site`, written out: the caller is the user's own code
            lease._site = frame.f_code, frame.f_lasti
            return lease
        except BaseException:
            undo_all(undo)
            raise

    def try_acquire(self) -> Lease | None:
        """Hold the lock if it is free at this moment, else None. Never waits."""
        undo: list[Undo] = []
        try:
            lease = self._tried(undo)
            if lease is not None:
                lease._site = call_site()
            return lease
        except BaseException:
            undo_all(undo)
            raise

    def locked(self) -> bool:
        """Whether anybody holds the name now. It may change before you read the answer, so to take the lock
        if it is free there is `try_acquire`."""
        return run(self._locked())

    def _acquired(self, undo: list[Undo], timeout: Duration | _Default | None = DEFAULT) -> Lease:
        limit = self._timeout if timeout is DEFAULT else self._limit(timeout)
        claim = self._claim(undo, waits=True)
        if not claim.was_held and not run(obtain(claim, limit, self._attend)):
            raise run(self._timed_out(limit))
        return Lease(claim) if self._plain else self._lease(claim, limit, undo)

    def _tried(self, undo: list[Undo]) -> Lease | None:
        claim = self._claim(undo, waits=False)
        if not claim.was_held and not run(obtain(claim, 0.0)):
            return None
        try:
            return self._lease(claim, 0.0, undo)
        except LockTimeout:  # it had to be taken again, and another caller was faster
            return None

    def _lease(self, claim: Claim, limit: float, undo: list[Undo]) -> Lease:
        lease = self._watched(Lease(claim))
        if self._wants_barrier(lease):
            try:
                self._guard.raise_fence(lease)
            except StaleFence as stale:
                lease = self._watched(Lease(run(self._heal(lease, stale, limit, undo))))
                self._guard.raise_fence(lease)
            lease.check()  # it may have taken long
        return lease


class AsyncLock(BaseLock[AsyncLease], AsyncBlocks[AsyncLease]):
    """A lock on a name. Reusable, and safe to share between tasks."""

    _on_lost_words = ("cancel",)
    _awaits_guard = True

    async def acquire(
        self, timeout: Duration | _Default | None = DEFAULT, **habits: Never
    ) -> AsyncLease:
        """Wait for the lock and hold it; `LockTimeout` after `timeout` seconds, None waits for ever."""
        if habits:
            raise _refused(habits)
        lease = await self._acquire(timeout)
        lease._site = call_site()
        return lease

    async def _acquire(self, timeout: Duration | _Default | None = DEFAULT) -> AsyncLease:
        limit = self._timeout if timeout is DEFAULT else self._limit(timeout)
        claim = self._claim([], waits=True)
        if not claim.was_held and not await obtain(claim, limit, self._attend):
            raise await self._timed_out(limit)
        if self._plain:
            return AsyncLease(claim)
        return await self._barred(self._lease(claim), limit)

    async def try_acquire(self) -> AsyncLease | None:
        """Hold the lock if it is free at this moment, else None. Never waits."""
        claim = self._claim([], waits=False)
        try:
            if not claim.was_held and not await obtain(claim, 0.0):
                return None
            lease = await self._barred(self._lease(claim), 0.0)
            lease._site = call_site()
            return lease
        except LockTimeout:  # it had to be taken again, and another caller was faster
            return None

    async def _barred(self, lease: AsyncLease, limit: float) -> AsyncLease:
        if self._wants_barrier(lease):
            try:
                try:
                    await self._guard.raise_fence(lease)
                except StaleFence as stale:
                    lease = self._lease(await self._heal(lease, stale, limit, []))
                    await self._guard.raise_fence(lease)
                lease.check()  # it may have taken long
            except BaseException:
                lease._context.give_up(lease._claim, WITHDRAWN)
                raise
        return lease

    async def locked(self) -> bool:
        """Whether anybody holds the name now. It may change before you read the answer, so to take the lock
        if it is free there is `try_acquire`."""
        return await self._locked()

    def _lease(self, claim: Claim) -> AsyncLease:
        lease = self._watched(AsyncLease(claim))
        lease._cancels = self._on_lost == "cancel" and claim.depth == 1
        return lease


def _refused(options: Iterable[str]) -> TypeError:
    from fencelock.primitives.habits import in_our_words  # only mistakes need it

    option = min(options)
    return TypeError(
        f"acquire() has no option {option!r}: {in_our_words(option)}the only option is timeout"
    )


def _checked_guard(guard: Any, awaits: bool) -> Any:
    if guard is UNGUARDED:
        from fencelock.primitives.unguarded import warn  # few programs need it

        return warn()
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
    return guard
