"""The clients: what a program opens first."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from fencelock.client.base import BaseClient, default_url
from fencelock.core.function_kind import is_async
from fencelock.core.ticket import Inspection
from fencelock.engines.contract import Guarantee
from fencelock.io.blocking import BlockingIO, run
from fencelock.primitives.lease import AsyncLease, Lease
from fencelock.primitives.lock import AsyncLock, Lock

if TYPE_CHECKING:
    from fencelock.engines.routing import Routes
    from fencelock.guards.stamp import AsyncBarrier, Barrier
    from fencelock.primitives.election import AsyncElection, Election
    from fencelock.primitives.locked import AsyncDecorator, Decorator
    from fencelock.primitives.several import AsyncLockAll, LockAll
    from fencelock.primitives.transaction import AsyncTransaction, Transaction

__all__ = ["AsyncClient", "Client", "default_url"]

T = TypeVar("T")

DAY = 86_400.0


class Client(BaseClient[Lease, Lock, "LockAll", "Transaction", "Election"]):
    """Locks for blocking programs. Safe to share between threads; make a new one after a fork.

    `url` chooses the engine; without one it is `FENCELOCK_URL` or a SQLite file in the user's state
    folder. A dict, `{"order:*": url1, "*": url2}`, gives each name the engine of the first pattern that
    matches it; several URLs for one pattern are chosen from by the name's hash. `ttl` is the default for
    this client's locks, 30 seconds if not given. `label` says who you are in listings.
    `purpose="correctness"` refuses engines that can't promise it; `traits.condition` says on what the
    promise of the others rests.
    """

    _kind = Lock

    @property
    def _several(self) -> type[LockAll]:
        from fencelock.primitives.several import LockAll

        return LockAll

    @property
    def _transaction(self) -> type[Transaction]:
        from fencelock.primitives.transaction import Transaction

        return Transaction

    @property
    def _election(self) -> type[Election]:
        from fencelock.primitives.election import Election

        return Election

    def __init__(
        self,
        url: str | Routes | None = None,
        *,
        ttl: float | None = None,
        label: str = "",
        purpose: Guarantee = "efficiency",
    ) -> None:
        super().__init__(url, BlockingIO, ttl, label, purpose)

    def lock(
        self,
        name: str,
        *,
        ttl: float | None = None,
        timeout: float | None = None,
        label: str | None = None,
        reentrant: bool = False,
        on_lost: Callable[[Lease], Any] | None = None,
        purpose: Guarantee | None = None,
        guard: Barrier | None = None,
    ) -> Lock:
        """A lock on a name; nothing is sent yet. `ttl`: how long a lease lives unless renewed.
        `timeout`: how long to wait in a `with`. `on_lost` is called with the lease when it is lost.
        `guard` refuses older holders before you have the lease: what you then read stays true until you
        write, or your write is refused."""
        return self._lock(name, ttl, timeout, label, reentrant, on_lost, purpose, guard=guard)

    def once(
        self,
        name: str,
        work: Callable[..., T],
        *,
        keep: float = DAY,
        errors: bool = False,
        ttl: float | None = None,
        timeout: float | None = None,
        label: str | None = None,
        purpose: Guarantee | None = None,
    ) -> T:
        """Do some work once, and hand its result to everyone who asks within `keep` seconds from its
        beginning. Results are kept as JSON; with `errors` a failure is kept too, for later callers to
        get `RanBefore`. If it takes a `lease`, it gets one; `lease.abandoned` says that somebody has
        begun it before and not come to the end."""
        from fencelock.primitives.once import once

        if is_async(work):
            raise TypeError("a coroutine function needs an AsyncClient")
        options = (ttl, timeout, label, False, None, purpose)
        lock, task = self._once(name, work, keep, *options, errors=errors)
        result: T = once(lock, task)
        return result

    def scheduled(
        self,
        name: str,
        *,
        at_most_every: float,
        ttl: float | None = None,
        label: str | None = None,
        purpose: Guarantee | None = None,
    ) -> Any:
        """Decorate a job that many machines start at the same times: `@client.scheduled("report",
        at_most_every=3600)`. It runs once per period, counted from its last beginning by the engine's
        clock, and never twice at a time; other calls return None at once. A run that failed or died
        does not count, so the next call runs it; a period without any call is not made up for."""
        from fencelock.primitives.once import scheduled

        options = (ttl, 0.0, label, False, None, purpose)
        return scheduled(lambda job: self._once(name, job, at_most_every, *options, results=False))

    def locked(self, name: str, **options: Any) -> Decorator:
        """Decorate a function to run under a lock: `@client.locked("report:{day}", ttl=60)`.

        The name is filled in from the call's arguments; a `lease` parameter gets the lease.
        """
        from fencelock.primitives.locked import locked

        self.lock("any name", **options)  # a misspelt option is noticed here
        return locked(name, lambda filled: self.lock(filled, **options))

    def inspect(self, name: str, *, limit: int = 100) -> Inspection:
        """Who holds a name and who waits for it."""
        return run(self._inspect(name, limit))

    def names(self, pattern: str = "*") -> list[str]:
        """The names that are held or waited for now, e.g. `names("order:*")`."""
        return run(self._names(pattern))

    def break_lock(self, name: str) -> bool:
        """Take a lock from whoever holds it. Its holder learns at its next renewal, one of this very client
        at once. Returns False if nobody held it."""
        return run(self._break_lock(name))

    def close(self) -> None:
        """Release what is still held and close the connections."""
        run(self._close())

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


class AsyncClient(
    BaseClient[AsyncLease, AsyncLock, "AsyncLockAll", "AsyncTransaction", "AsyncElection"]
):
    """Locks for asyncio programs. One per event loop; the first use binds it to the running loop.

    The arguments are those of `Client`.
    """

    _kind = AsyncLock

    @property
    def _several(self) -> type[AsyncLockAll]:
        from fencelock.primitives.several import AsyncLockAll

        return AsyncLockAll

    @property
    def _transaction(self) -> type[AsyncTransaction]:
        from fencelock.primitives.transaction import AsyncTransaction

        return AsyncTransaction

    @property
    def _election(self) -> type[AsyncElection]:
        from fencelock.primitives.election import AsyncElection

        return AsyncElection

    def __init__(
        self,
        url: str | Routes | None = None,
        *,
        ttl: float | None = None,
        label: str = "",
        purpose: Guarantee = "efficiency",
    ) -> None:
        from fencelock.io.asyncio import AsyncioIO  # asyncio takes long to import

        super().__init__(url, AsyncioIO, ttl, label, purpose)

    def lock(
        self,
        name: str,
        *,
        ttl: float | None = None,
        timeout: float | None = None,
        label: str | None = None,
        reentrant: bool = False,
        on_lost: Callable[[AsyncLease], Any] | Literal["cancel"] | None = None,
        purpose: Guarantee | None = None,
        guard: AsyncBarrier | None = None,
    ) -> AsyncLock:
        """A lock on a name; nothing is sent yet. `on_lost="cancel"` cancels the `async with` body
        when the lease is lost, and turns that cancellation into `LeaseLost`."""
        return self._lock(name, ttl, timeout, label, reentrant, on_lost, purpose, guard=guard)

    async def once(
        self,
        name: str,
        work: Callable[..., Awaitable[T]],
        *,
        keep: float = DAY,
        errors: bool = False,
        ttl: float | None = None,
        timeout: float | None = None,
        label: str | None = None,
        purpose: Guarantee | None = None,
    ) -> T:
        """Do some work once, and hand its result to everyone who asks within `keep` seconds from its
        beginning. Results are kept as JSON; with `errors` a failure is kept too, for later callers to
        get `RanBefore`. If it takes a `lease`, it gets one; `lease.abandoned` says that somebody has
        begun it before and not come to the end."""
        from fencelock.primitives.once import async_once

        if not is_async(work):
            raise TypeError("this is for coroutine functions: use a Client")
        options = (ttl, timeout, label, False, None, purpose)
        lock, task = self._once(name, work, keep, *options, errors=errors)
        result: T = await async_once(lock, task)
        return result

    def scheduled(
        self,
        name: str,
        *,
        at_most_every: float,
        ttl: float | None = None,
        label: str | None = None,
        purpose: Guarantee | None = None,
    ) -> Any:
        """Decorate a job that many machines start at the same times: `@client.scheduled("report",
        at_most_every=3600)`. It runs once per period, counted from its last beginning by the engine's
        clock, and never twice at a time; other calls return None at once. A run that failed or died
        does not count, so the next call runs it; a period without any call is not made up for."""
        from fencelock.primitives.once import async_scheduled

        options = (ttl, 0.0, label, False, None, purpose)
        return async_scheduled(
            lambda job: self._once(name, job, at_most_every, *options, results=False)
        )

    def locked(self, name: str, **options: Any) -> AsyncDecorator:
        """Decorate a coroutine function to run under a lock: `@client.locked("report:{day}")`."""
        from fencelock.primitives.locked import async_locked

        self.lock("any name", **options)  # a misspelt option is noticed here
        return async_locked(name, lambda filled: self.lock(filled, **options))

    async def inspect(self, name: str, *, limit: int = 100) -> Inspection:
        """Who holds a name and who waits for it."""
        return await self._inspect(name, limit)

    async def names(self, pattern: str = "*") -> list[str]:
        """The names that are held or waited for now, e.g. `names("order:*")`."""
        return await self._names(pattern)

    async def break_lock(self, name: str) -> bool:
        """Take a lock from whoever holds it. Its holder learns at its next renewal, one of this very client
        at once. Returns False if nobody held it."""
        return await self._break_lock(name)

    async def close(self) -> None:
        """Release what is still held and close the connections."""
        await self._close()

    async def __aenter__(self) -> AsyncClient:
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.close()
