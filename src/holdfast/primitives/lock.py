"""The mutex: one holder at a time, in order of arrival."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, ClassVar, Generic, Literal, TypeVar

from holdfast.core.durations import check_timeout
from holdfast.core.errors import EngineError, LockTimeout, WouldDeadlock
from holdfast.core.ticket import Owner, Ticket
from holdfast.io.blocking import run
from holdfast.primitives.keeper import Keeper
from holdfast.primitives.kept import EXPIRED, Kept
from holdfast.primitives.lease import AsyncLease, BaseLease, Lease, end
from holdfast.primitives.waiting import LEAST_TIMEOUT, new_id, obtain

L = TypeVar("L", bound=BaseLease)


class _Default:
    """Stands for "as given to lock()": None already means "wait for ever"."""

    def __repr__(self) -> str:
        return "<as given to lock()>"


DEFAULT = _Default()


class BaseLock(Generic[L]):
    """What a lock is, in both worlds: a recipe for leases. It holds nothing itself."""

    _on_lost_words: ClassVar[tuple[str, ...]] = ()

    def __init__(
        self,
        keeper: Keeper,
        name: str,
        *,
        ttl: float,
        timeout: float | None,
        owner: Owner,
        reentrant: bool,
        on_lost: Callable[[L], Any] | Literal["cancel"] | None,
    ) -> None:
        check_timeout(timeout)
        if not (on_lost is None or callable(on_lost) or on_lost in self._on_lost_words):
            raise TypeError(
                "on_lost must be a function that takes the lease, or with asyncio 'cancel', "
                f"not {on_lost!r}"
            )
        self.name = name
        self._keeper = keeper
        self._ttl = ttl
        self._timeout = timeout
        self._owner = owner
        self._reentrant = reentrant
        self._on_lost = on_lost
        # The leases of the `with` blocks that are open now, innermost last, by who opened them:
        # two tasks that share one lock object must not end each other's lease.
        self._open: dict[object, list[L]] = {}

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name!r}>"

    async def _acquire(self, timeout: float | _Default | None) -> Kept:
        if isinstance(timeout, _Default):
            timeout = self._timeout
        kept = await self._obtain(check_timeout(timeout), waits=True)
        if kept is None:
            raise await self._timed_out(timeout or 0)
        return kept

    async def _obtain(self, timeout: float, *, waits: bool) -> Kept | None:
        keeper = self._keeper
        keeper.verify()
        held = keeper.held_by(self.name, keeper.io.caller())
        if held is not None and self._reentrant:
            held.depth += 1
            return held
        if held is not None and waits:
            raise WouldDeadlock(
                f"{self.name!r} is already held by this very thread or task, so waiting for it would "
                "never end: pass the lease along, or use lock(…, reentrant=True)",
                name=self.name,
            )
        return await obtain(keeper, Ticket(self.name, new_id(), self._ttl, self._owner), timeout)

    def _watch(self, lease: L) -> L:
        if callable(self._on_lost) and lease._kept.depth == 1:
            callback = self._on_lost
            lease._kept.on_lost = [lambda: callback(lease)]
        return lease

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
        holder = seen.holders[0]
        ahead = f", {seen.waiting} waiting" if seen.waiting else ""
        return LockTimeout(
            f"{waited}: held by {holder.owner} for {holder.since:.1f} s (fence {holder.fence}{ahead})",
            name=self.name,
            holder=holder,
        )

    def _entered(self, lease: L) -> L:
        self._open.setdefault(self._keeper.io.caller(), []).append(lease)
        return lease

    def _exiting(self) -> L:
        caller = self._keeper.io.caller()
        leases = self._open[caller]
        lease = leases.pop()
        if not leases:
            del self._open[caller]
        return lease


class Lock(BaseLock[Lease]):
    """A lock on a name. Reusable, and safe to share between threads."""

    def acquire(self, timeout: float | _Default | None = DEFAULT) -> Lease:
        """Wait for the lock and hold it; `LockTimeout` after `timeout` seconds, None waits for ever."""
        return self._watch(Lease(self._keeper, run(self._acquire(timeout))))

    def try_acquire(self) -> Lease | None:
        """Hold the lock if it is free at this moment, else None. Never waits."""
        kept = run(self._obtain(0.0, waits=False))
        return None if kept is None else self._watch(Lease(self._keeper, kept))

    def __enter__(self) -> Lease:
        return self._entered(self.acquire())

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        run(end(self._exiting(), error))


class AsyncLock(BaseLock[AsyncLease]):
    """A lock on a name. Reusable, and safe to share between tasks."""

    _on_lost_words = ("cancel",)

    async def acquire(self, timeout: float | _Default | None = DEFAULT) -> AsyncLease:
        """Wait for the lock and hold it; `LockTimeout` after `timeout` seconds, None waits for ever."""
        return self._watch(AsyncLease(self._keeper, await self._acquire(timeout)))

    async def try_acquire(self) -> AsyncLease | None:
        """Hold the lock if it is free at this moment, else None. Never waits."""
        kept = await self._obtain(0.0, waits=False)
        return None if kept is None else self._watch(AsyncLease(self._keeper, kept))

    async def __aenter__(self) -> AsyncLease:
        lease = self._entered(await self.acquire())
        if self._on_lost == "cancel" and lease._kept.depth == 1:
            lease._kept.on_lost = [_Canceller()]
        return lease

    async def __aexit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        lease = self._exiting()
        for callback in lease._kept.on_lost:
            if isinstance(callback, _Canceller) and callback.caused(error):
                raise lease._lost(lease._kept.reason or EXPIRED) from error
        await end(lease, error)


class _Canceller:
    """Cancels the task whose lease is lost, and knows its own cancellation again."""

    def __init__(self) -> None:
        task = asyncio.current_task()
        assert task is not None, "async with runs in a task"
        self._task = task
        self._before = task.cancelling()
        self._fired = False

    def __call__(self) -> None:
        # A task that notices the loss itself gets LeaseLost right there.
        if asyncio.current_task() is not self._task:
            self._fired = True
            self._task.cancel()

    def caused(self, error: BaseException | None) -> bool:
        """Whether the error that ended the body is this cancellation and no other."""
        if not self._fired or not isinstance(error, asyncio.CancelledError):
            return False
        return self._task.uncancel() <= self._before
