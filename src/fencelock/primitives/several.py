"""Several locks at once, all or nothing, taken in one order by everyone: so nobody waits in a circle."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, ExitStack
from typing import Any, Generic, TypeVar

from fencelock.core.durations import check_timeout
from fencelock.core.errors import LeaseLost
from fencelock.io.blocking import run
from fencelock.primitives.kept import Kept
from fencelock.primitives.lease import AsyncLease, BaseLease, Lease
from fencelock.primitives.lock import DEFAULT, AsyncLock, BaseLock, Lock, Undo, _Default, undo_all
from fencelock.primitives.waiting import LEAST_TIMEOUT, obtain_free, withdraw

L = TypeVar("L", bound=BaseLease)


class BaseLeases(Mapping[str, L]):
    """Leases by name, in the order in which they were taken."""

    def __init__(self, leases: Sequence[L]) -> None:
        self._leases = {lease.name: lease for lease in leases}
        self._caller = leases[0]._kept.caller

    def __getitem__(self, name: str) -> L:
        return self._leases[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._leases)

    def __len__(self) -> int:
        return len(self._leases)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {list(self._leases.values())}>"

    def check(self) -> None:
        """Raise `LeaseLost` unless all of them are still good."""
        for lease in self._leases.values():
            lease.check()

    async def _release(self) -> None:
        lost: LeaseLost | None = None
        for lease in reversed(self._leases.values()):
            try:
                await lease._release()
            except LeaseLost as error:
                lost = lost or error
        if lost is not None:
            raise lost


class Leases(BaseLeases[Lease]):
    """Proof of holding several locks. Each can be lost by itself: ask `check()`."""

    def release(self) -> None:
        """Give all of them back; `LeaseLost` if one was lost before."""
        run(self._release())


class AsyncLeases(BaseLeases[AsyncLease]):
    """Proof of holding several locks. Each can be lost by itself: ask `check()`."""

    async def release(self) -> None:
        """Give all of them back; `LeaseLost` if one was lost before."""
        await self._release()


class _BaseLockAll(Generic[L]):
    """What taking several locks is, in both worlds."""

    def __init__(self, locks: Sequence[BaseLock[L]], timeout: float | None) -> None:
        self._locks: Sequence[Any] = sorted(locks, key=lambda lock: lock.name)
        self._timeout = check_timeout(timeout)
        self._keeper = self._locks[0]._keeper
        self._open: list[Any] = []
        """The leases of the `with` blocks that are open now, of all who share this object."""

    @property
    def names(self) -> list[str]:
        """The names, in the order in which they are taken."""
        return [lock.name for lock in self._locks]

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.names}>"

    async def _acquire(self, timeout: float | _Default | None, undo: list[Undo]) -> list[Kept]:
        limit = self._timeout if isinstance(timeout, _Default) else check_timeout(timeout)
        taken, missing = await self._obtain(limit, undo)
        if missing is not None:
            raise await missing._timed_out(limit)
        return taken

    async def _obtain(self, timeout: float, undo: list[Undo]) -> tuple[list[Kept], Any]:
        """Hold all of them; or none, and say which one could not be had."""
        keeper, io = self._keeper, self._keeper.io
        keeper.verify()
        caller = io.caller()
        limit = io.now() + timeout
        for lock in self._locks:
            held = keeper.held_by(lock.name, caller)
            if held is not None and timeout:
                lock._refuse_to_wait_for(held.ticket.share)
        while True:
            wanted = [lock._new(caller, undo) for lock in self._locks]
            taken = wanted[: await obtain_free(keeper, wanted)]
            missing = await self._wait_for_the_rest(caller, taken, limit, undo)
            if missing is None and all(map(keeper.is_good, taken)):
                return taken, None
            for kept in reversed(taken):
                await withdraw(keeper, kept, LEAST_TIMEOUT)
            if missing is not None:
                return [], missing
            # One was lost while we waited for another: from the beginning.

    async def _wait_for_the_rest(
        self, caller: object, taken: list[Kept], limit: float, undo: list[Undo]
    ) -> Any:
        """Add what is not taken yet; the lock that could not be had in time, if there is one."""
        now = self._keeper.io.now
        for lock in self._locks[len(taken) :]:
            kept = await lock._join(caller, max(0.0, limit - now()), undo)
            if kept is None:
                return lock
            taken.append(kept)
        return None

    def _innermost(self) -> Any:
        """The leases whose `with` block ends now."""
        caller = self._keeper.io.caller()
        found = [leases for leases in self._open if leases._caller == caller] or self._open
        if not found:
            raise RuntimeError(f"the with block of {self!r} was left but never entered")
        self._open.remove(found[-1])
        return found[-1]

    def __del__(self) -> None:
        # Interrupted in the very moment in which `__exit__` was about to be called: as in `Lock`.
        for leases in self.__dict__.get("_open", ()):
            for lease in leases.values():
                self._keeper.errands.append(lease._give_up)


class LockAll(_BaseLockAll[Lease]):
    """Several locks that are taken and given back together."""

    def __init__(self, locks: Sequence[Lock], timeout: float | None) -> None:
        super().__init__(locks, timeout)

    def acquire(self, timeout: float | _Default | None = DEFAULT) -> Leases:
        """Wait for all of them; `LockTimeout` after `timeout` seconds in all, and then none is held."""
        undo: list[Undo] = []
        try:
            return self._leases(run(self._acquire(timeout, undo)))
        except BaseException:
            undo_all(self._keeper, undo)
            raise

    def try_acquire(self) -> Leases | None:
        """Hold all of them if they are free at this moment, else None. Never waits."""
        undo: list[Undo] = []
        try:
            taken, missing = run(self._obtain(0.0, undo))
            return self._leases(taken) if missing is None else None
        except BaseException:
            undo_all(self._keeper, undo)
            raise

    def __enter__(self) -> Leases:
        undo: list[Undo] = []
        try:
            self._open.append(leases := self._leases(run(self._acquire(DEFAULT, undo))))
            return leases
        except BaseException:
            undo_all(self._keeper, undo)
            raise

    def __exit__(self, *failure: Any) -> None:
        stack = ExitStack()
        for lease in self._innermost().values():
            stack.push(lease)
        stack.__exit__(*failure)

    def _leases(self, taken: list[Kept]) -> Leases:
        leases = [Lease(self._keeper, kept) for kept in taken]
        return Leases(
            [lock._watched(lease) for lock, lease in zip(self._locks, leases, strict=True)]
        )


class AsyncLockAll(_BaseLockAll[AsyncLease]):
    """Several locks that are taken and given back together."""

    def __init__(self, locks: Sequence[AsyncLock], timeout: float | None) -> None:
        super().__init__(locks, timeout)

    async def acquire(self, timeout: float | _Default | None = DEFAULT) -> AsyncLeases:
        """Wait for all of them; `LockTimeout` after `timeout` seconds in all, and then none is held."""
        undo: list[Undo] = []
        try:
            return self._leases(await self._acquire(timeout, undo))
        except BaseException:
            undo_all(self._keeper, undo)
            raise

    async def try_acquire(self) -> AsyncLeases | None:
        """Hold all of them if they are free at this moment, else None. Never waits."""
        undo: list[Undo] = []
        try:
            taken, missing = await self._obtain(0.0, undo)
            return self._leases(taken) if missing is None else None
        except BaseException:
            undo_all(self._keeper, undo)
            raise

    async def __aenter__(self) -> AsyncLeases:
        leases = await self.acquire()
        for lease in leases.values():
            await lease.__aenter__()
        self._open.append(leases)
        return leases

    async def __aexit__(self, *failure: Any) -> None:
        stack = AsyncExitStack()
        for lease in self._innermost().values():
            stack.push_async_exit(lease)
        await stack.__aexit__(*failure)

    def _leases(self, taken: list[Kept]) -> AsyncLeases:
        made = [lock._lease(kept) for lock, kept in zip(self._locks, taken, strict=True)]
        return AsyncLeases(made)
