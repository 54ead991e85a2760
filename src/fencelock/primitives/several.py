"""Several locks at once, all or nothing. Every caller takes them in the same order, so none wait in a
circle."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Generic, TypeVar

from fencelock.core.durations import Duration, check_timeout
from fencelock.core.errors import LeaseLost
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
from fencelock.primitives.call_site import call_site
from fencelock.primitives.claim import Claim
from fencelock.primitives.context import Context
from fencelock.primitives.holding import AsyncHolding, BlockingHolding, Holding, release_all
from fencelock.primitives.lease import AsyncLease, BaseLease, Lease
from fencelock.primitives.lock import AsyncLock, BaseLock, Lock
from fencelock.primitives.waiting import MIN_TIMEOUT, obtain_free, withdraw

L = TypeVar("L", bound=BaseLease)
H = TypeVar("H", bound=Holding)


class BaseLeases(Holding, Mapping[str, L]):
    """Leases by name, as the caller gave it, in the order in which they were taken."""

    def __init__(self, leases: dict[str, L]) -> None:
        self._leases = leases
        site = call_site()
        for lease in leases.values():
            lease._site = site

    @property
    def _first(self) -> L:
        return next(iter(self._leases.values()))

    @property
    def _context(self) -> Context:
        return self._first._context

    @property
    def _caller(self) -> object:
        return self._first._caller

    def __getitem__(self, name: str) -> L:
        return self._leases[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._leases)

    def __len__(self) -> int:
        return len(self._leases)

    def __bool__(self) -> bool:
        """Whether all of them are held now, by this moment's clock."""
        return all(self._leases.values())

    # Two of them are never equal. So a list of them is searched in one step, which threads rely on.
    __eq__ = object.__eq__
    __hash__ = object.__hash__

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {list(self._leases.values())}>"

    def check(self, at_least: Duration = 0) -> None:
        """Raise `LeaseLost` unless all of them are still good, and with `at_least` for so many seconds."""
        for lease in self._leases.values():
            lease.check(at_least)

    async def _release(self) -> None:
        await release_all(list(self._leases.values()))

    def _give_up(self) -> None:
        for lease in self._leases.values():
            lease._give_up()

    def _loss(self) -> LeaseLost | None:
        losses = (lease._loss() for lease in self._leases.values())
        return next((loss for loss in losses if loss is not None), None)

    def _on_loss(self, callback: Callable[[], Any]) -> None:
        for lease in self._leases.values():
            lease._on_loss(callback)


class Leases(BaseLeases[Lease], BlockingHolding):
    """Proof of holding several locks. Each can be lost by itself: `check()` tells."""

    def release(self) -> None:
        """Release all of them; `LeaseLost` if one was lost before."""
        try:
            run(self._release())
        except BaseException:
            self._give_up()
            raise


class AsyncLeases(BaseLeases[AsyncLease], AsyncHolding):
    """Proof of holding several locks. Each can be lost by itself: `check()` tells."""

    def __init__(self, leases: dict[str, AsyncLease]) -> None:
        super().__init__(leases)
        self._cancels = any(lease._cancels for lease in leases.values())
        self._canceller = None

    async def release(self) -> None:
        """Release all of them; `LeaseLost` if one was lost before."""
        await self._release()


class _BaseLockAll(Blocks[H], Generic[L, H]):
    """How several locks are taken, blocking or not."""

    def __init__(self, locks: Mapping[str, BaseLock[L]], timeout: Duration | None) -> None:
        self._names = sorted(locks, key=lambda given: locks[given].name)
        self._locks: Sequence[Any] = [locks[name] for name in self._names]
        super().__init__(self._locks[0]._contexts)
        self._timeout = check_timeout(timeout)

    @property
    def names(self) -> list[str]:
        """The names, in the order in which they are taken."""
        return list(self._names)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.names}>"

    async def _hold(self, timeout: Duration | _Default | None, undo: list[Undo]) -> list[Claim]:
        limit = self._timeout if isinstance(timeout, _Default) else check_timeout(timeout)
        taken, missing = await self._obtain(limit, undo)
        if missing is not None:
            raise await missing._timed_out(limit)
        return taken

    async def _obtain(self, timeout: float, undo: list[Undo]) -> tuple[list[Claim], Any]:
        """Hold all of them. Or hold none, and say which lock could not be had."""
        context = self._contexts.here()
        context.verify()
        caller = context.io.caller()
        limit = context.io.now() + timeout
        for lock in self._locks:
            held = context.held_by(lock.name, caller)
            if held is not None and timeout:
                lock._refuse_to_wait_for(held.ticket.share)
        while True:
            wanted = [lock._new(context, caller, undo) for lock in self._locks]
            taken = wanted[: await obtain_free(wanted)]
            missing = None
            for lock in self._locks[len(taken) :]:
                left = max(0.0, limit - context.io.now())
                claim = await lock._join(context, caller, left, undo)
                if claim is None:
                    missing = lock
                    break
                taken.append(claim)
            if missing is None and all(claim.is_good() for claim in taken):
                return taken, None
            for claim in reversed(taken):
                await withdraw(claim, MIN_TIMEOUT)
            if missing is not None:
                return [], missing
            # One was lost while we waited for another: start again.


class LockAll(_BaseLockAll[Lease, Leases], BlockingBlocks[Leases]):
    """Several locks that are acquired and released together."""

    def __init__(self, locks: Mapping[str, Lock], timeout: Duration | None) -> None:
        super().__init__(locks, timeout)

    def acquire(self, timeout: Duration | _Default | None = DEFAULT) -> Leases:
        """Wait for all of them; `LockTimeout` after `timeout` seconds in all, and then none is held."""
        return self._acquire(timeout)

    def try_acquire(self) -> Leases | None:
        """Hold all of them if they are free at this moment, else None. Never waits."""
        undo: list[Undo] = []
        try:
            taken, missing = run(self._obtain(0.0, undo))
            return self._leases(taken) if missing is None else None
        except BaseException:
            undo_all(undo)
            raise

    def _acquired(self, undo: list[Undo], timeout: Duration | _Default | None = DEFAULT) -> Leases:
        return self._leases(run(self._hold(timeout, undo)))

    def _leases(self, taken: list[Claim]) -> Leases:
        made = [Lease(claim) for claim in taken]
        leases = [lock._watched(lease) for lock, lease in zip(self._locks, made, strict=True)]
        return Leases(dict(zip(self._names, leases, strict=True)))


class AsyncLockAll(_BaseLockAll[AsyncLease, AsyncLeases], AsyncBlocks[AsyncLeases]):
    """Several locks that are acquired and released together."""

    def __init__(self, locks: Mapping[str, AsyncLock], timeout: Duration | None) -> None:
        super().__init__(locks, timeout)

    async def acquire(self, timeout: Duration | _Default | None = DEFAULT) -> AsyncLeases:
        """Wait for all of them; `LockTimeout` after `timeout` seconds in all, and then none is held."""
        undo: list[Undo] = []
        try:
            return self._leases(await self._hold(timeout, undo))
        except BaseException:
            undo_all(undo)
            raise

    _acquire = acquire  # for `async with`

    async def try_acquire(self) -> AsyncLeases | None:
        """Hold all of them if they are free at this moment, else None. Never waits."""
        undo: list[Undo] = []
        try:
            taken, missing = await self._obtain(0.0, undo)
            return self._leases(taken) if missing is None else None
        except BaseException:
            undo_all(undo)
            raise

    def _leases(self, taken: list[Claim]) -> AsyncLeases:
        made = [lock._lease(claim) for lock, claim in zip(self._locks, taken, strict=True)]
        return AsyncLeases(dict(zip(self._names, made, strict=True)))
