"""The clients: a program opens one first, and gets its locks from it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING, TypeVar, Unpack, overload

from fencelock.client.base import BaseClient, default_url
from fencelock.client.inquiries import AsyncInquiries, Inquiries
from fencelock.client.options import (
    AsyncAttachOptions,
    AsyncHoldOptions,
    AsyncOptions,
    AttachOptions,
    CommonOptions,
    HoldOptions,
    OnceOptions,
    Options,
    PolicyName,
    RateOptions,
)
from fencelock.core.durations import Duration
from fencelock.core.function_kind import is_async
from fencelock.io.blocking import BlockingIO, blocking
from fencelock.io.contract import IO
from fencelock.primitives.lease import AsyncLease, Lease
from fencelock.primitives.lock import AsyncLock, Lock
from fencelock.primitives.rwlock import ReadWriteLock

# Most programs need locks only: the other primitives are imported when they are first used.
if TYPE_CHECKING:
    from fencelock.primitives.election import AsyncElection, Election
    from fencelock.primitives.locked import AsyncDecorator, Decorator
    from fencelock.primitives.once import AsyncSchedule, Schedule, TakesLease
    from fencelock.primitives.rate import AsyncRate, Rate
    from fencelock.primitives.several import AsyncLockAll, LockAll
    from fencelock.primitives.transaction import AsyncTransaction, Transaction

__all__ = [
    "AsyncAttachOptions",
    "AsyncClient",
    "AsyncHoldOptions",
    "AsyncOptions",
    "AttachOptions",
    "Client",
    "CommonOptions",
    "HoldOptions",
    "OnceOptions",
    "Options",
    "RateOptions",
    "default_url",
]

T = TypeVar("T")

DAY = 86_400.0


class AsyncClient(AsyncInquiries):
    """Locks for asyncio programs. Works in every event loop and in a forked child; leases do not move.

    The arguments are those of `Client`, and so are the options of its methods. There are two differences.
    `on_lost="cancel"` cancels the body of the `async with` when the lease is lost, and turns that
    cancellation into `LeaseLost`. A `guard` must be one of the `Async…` guards.
    """

    @staticmethod
    def _new_io() -> IO:
        from fencelock.io.asyncio import AsyncioIO  # asyncio takes long to import

        return AsyncioIO()

    def lock(self, name: str, **options: Unpack[AsyncOptions]) -> AsyncLock:
        """A lock on a name; nothing is sent yet. The options are those of `Client.lock`, and
        `on_lost="cancel"`: cancel the body of the `async with` when the lease is lost."""
        made = self._options(AsyncOptions, options) if options else self._defaults
        return AsyncLock(self._contexts, self._full(name), made)

    def rwlock(self, name: str, **options: Unpack[AsyncOptions]) -> ReadWriteLock[AsyncLock]:
        """A read-write lock: as `Client.rwlock`."""
        return self._rwlock(AsyncLock, name, self._options(AsyncOptions, options))

    def semaphore(
        self, name: str, permits: int, *, weight: int = 1, **options: Unpack[AsyncHoldOptions]
    ) -> AsyncLock:
        """A lock that several callers hold together: as `Client.semaphore`."""
        made = self._options(AsyncHoldOptions, options)
        return self._semaphore(AsyncLock, name, permits, weight, made)

    def rate(
        self, name: str, limit: int, per: Duration = 60.0, **options: Unpack[RateOptions]
    ) -> AsyncRate:
        """At most so many per time, over all machines: as `Client.rate`."""
        from fencelock.primitives.rate import AsyncRate

        return self._rate(AsyncRate, name, limit, per, options)

    def lock_all(self, names: Iterable[str], **options: Unpack[AsyncHoldOptions]) -> AsyncLockAll:
        """Several locks at once, all or nothing: as `Client.lock_all`."""
        from fencelock.primitives.several import AsyncLockAll

        made = self._options(AsyncHoldOptions, options)
        return AsyncLockAll(self._each(AsyncLock, names, made), made.timeout)

    async def attach(self, name: str, id: str, **options: Unpack[AsyncAttachOptions]) -> AsyncLease:
        """Go on with a lease that was acquired elsewhere: as `Client.attach`."""
        from fencelock.primitives.attaching import async_attach

        made = self._options(AsyncAttachOptions, options)
        return await async_attach(AsyncLock(self._contexts, self._full(name), made), id)

    def transaction(
        self,
        policy: PolicyName = "wait-die",
        *,
        timeout: Duration | None = None,
        attempts: int = 100,
        patience: Duration = 0.5,
        **options: Unpack[CommonOptions],
    ) -> AsyncTransaction:
        """Several locks, taken one after the other without deadlock: as `Client.transaction`."""
        from fencelock.primitives.transaction import AsyncTransaction

        return AsyncTransaction(
            self._contexts,
            self._with_data(AsyncLock, self._options(CommonOptions, options)),
            policy=policy,
            timeout=timeout,
            attempts=attempts,
            patience=patience,
        )

    def election(
        self, name: str, value: str = "", **options: Unpack[AsyncHoldOptions]
    ) -> AsyncElection:
        """A candidate for the leadership of a name: as `Client.election`."""
        from fencelock.primitives.election import AsyncElection

        make = self._with_data(AsyncLock, self._for_leader(AsyncHoldOptions, options))
        return AsyncElection(partial(make, name), value)

    # Two overloads and not a union, with which mypy can't infer the type of a lambda.
    @overload
    async def once(
        self, name: str, work: Callable[[], Awaitable[T]], **options: Unpack[OnceOptions]
    ) -> T: ...
    @overload
    async def once(
        self,
        name: str,
        work: TakesLease[AsyncLease, Awaitable[T]],
        **options: Unpack[OnceOptions],
    ) -> T: ...
    async def once(
        self, name: str, work: Callable[..., Awaitable[T]], **options: Unpack[OnceOptions]
    ) -> T:
        """Do some work once and return its result to all callers: as `Client.once`."""
        from fencelock.primitives.once import async_once

        if not is_async(work):
            raise TypeError("this is for coroutine functions: use a Client")
        lock = AsyncLock(self._contexts, self._full(name), self._options(OnceOptions, options))
        keep, errors = options.get("keep", DAY), options.get("errors", False)
        return await async_once(lock, work, keep=keep, errors=errors)

    def scheduled(
        self, name: str, *, at_most_every: Duration, **options: Unpack[CommonOptions]
    ) -> AsyncSchedule:
        """Decorate a job that many machines start at the same times: as `Client.scheduled`."""
        from fencelock.primitives.once import async_scheduled

        made = self._options(CommonOptions, options)
        return async_scheduled(AsyncLock(self._contexts, self._full(name), made), at_most_every)

    def locked(self, name: str, **options: Unpack[AsyncOptions]) -> AsyncDecorator:
        """Decorate a coroutine function to run under a lock: as `Client.locked`."""
        from fencelock.primitives.locked import async_locked

        self.lock("any name", **options)  # a wrong option is refused here
        options.setdefault("guard", None)  # if it is missing, that has been said now
        return async_locked(name, lambda filled: self.lock(filled, **options))

    async def close(self: BaseClient) -> None:
        """Release what is still held and close the connections."""
        await self._context.close()

    async def __aenter__(self) -> AsyncClient:
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.close()


class Client(Inquiries):
    """Locks for blocking programs. Safe to share between threads. Works in a forked child, too.

    `url` chooses the engine; without one it is `FENCELOCK_URL` or a SQLite file in the user's state
    folder. A dict, `{"order:*": url1, "*": url2}`, gives each name the engine of the first pattern that
    matches it; several URLs for one pattern share the names by hash. `ttl` is the default for this client's
    locks, 30 seconds if not given. `label` says in listings who you are. `purpose="correctness"` refuses
    engines that can't promise it; `traits.condition` says what the promise of the others depends on. With
    `diagnose=True` the servers are examined before the first lock is taken, and every lock is refused with
    `UnsafeEngine` if they give less than the purpose: see docs/doctor.md.
    `observers` are told of what this client does: `fencelock.observe`. `warn_after` is the default for this
    client's locks: a lease that is held for longer is logged once, with the place where it was acquired.
    `namespace` keeps the names of this application apart from those of others at the same engine, also at
    guards: the lock on "x" is then the lock on "shop/x". See docs/namespaces.md. `credentials` is for Redis:
    a function, or a credential provider of redis-py, that is asked for user and password for each connection.
    """

    _new_io = BlockingIO

    def lock(self, name: str, **options: Unpack[Options]) -> Lock:
        """A lock on a name; nothing is sent yet. The options:

        `ttl`: how many seconds a lease lives unless it is renewed. The default is the client's.
        `timeout`: how many seconds a `with` waits. None, the default, waits for ever; 0 does not wait.
        (In redis-py, `timeout` is what `ttl` is here.)
        `label`: says in listings who holds it or waits for it. The default is the client's.
        `reentrant`: True lets a thread that holds the lock take it again.
        `on_lost`: a function that is called with the lease when that is lost.
        `purpose`: "correctness" refuses an engine that can't promise it. The default is the client's.
        `guard`: refuses older holders before you have the lease. What you then read stays true until you
        write, or your write is refused. A correctness lock without one warns; None says that it needs none.
        `warn_after`: logs where the lease was acquired if it is held for more seconds than that.
        `max_hold`: after so many seconds the lease is lost, even if its holder goes on.
        `renew`: False leaves the lease to its ttl, unless you renew it yourself.
        """
        made = self._options(Options, options) if options else self._defaults
        return Lock(self._contexts, self._full(name), made)

    def rwlock(self, name: str, **options: Unpack[Options]) -> ReadWriteLock[Lock]:
        """A read-write lock: `rwlock(name).read()` and `.write()` are locks with these options.
        The options are those of `lock`; the guard is for writers only."""
        return self._rwlock(Lock, name, self._options(Options, options))

    def semaphore(
        self, name: str, permits: int, *, weight: int = 1, **options: Unpack[HoldOptions]
    ) -> Lock:
        """A lock that several callers hold together, up to the number of permits. Each lease takes
        `weight` permits. The options are those of `lock`, but `reentrant` and `guard`."""
        made = self._options(HoldOptions, options)
        return self._semaphore(Lock, name, permits, weight, made)

    def rate(
        self, name: str, limit: int, per: Duration = 60.0, **options: Unpack[RateOptions]
    ) -> Rate:
        """At most `limit` permits in any `per` seconds, over all machines, by the engine's clock. Each
        acquire takes `weight` permits (1), in order of arrival. Nobody releases them: they expire.
        `ttl` is how long a waiter that died keeps its place. `timeout` is how many seconds `acquire` waits,
        unless it is given another one. `label` and `purpose` are as for `lock`."""
        from fencelock.primitives.rate import Rate

        return self._rate(Rate, name, limit, per, options)

    def lock_all(self, names: Iterable[str], **options: Unpack[HoldOptions]) -> LockAll:
        """Several locks at once, all or nothing. All callers take them in the same order. `timeout` is for
        all of them together. The other options are those of `lock`, but `reentrant` and `guard`."""
        from fencelock.primitives.several import LockAll

        made = self._options(HoldOptions, options)
        return LockAll(self._each(Lock, names, made), made.timeout)

    def attach(self, name: str, id: str, **options: Unpack[AttachOptions]) -> Lease:
        """Go on with a lease that was acquired elsewhere, in another process for example. `id` is that of the
        lease. It is renewed here from now on, with the ttl given here, and can be released here. If it is not
        held any more, that is `LeaseLost`: this never joins the queue. The first process lets go of it with
        `lease.detach()`. The options are those of `lock`, but `timeout`, `reentrant` and `guard`."""
        from fencelock.primitives.attaching import attach

        made = self._options(AttachOptions, options)
        return attach(Lock(self._contexts, self._full(name), made), id)

    def transaction(
        self,
        policy: PolicyName = "wait-die",
        *,
        timeout: Duration | None = None,
        attempts: int = 100,
        patience: Duration = 0.5,
        **options: Unpack[CommonOptions],
    ) -> Transaction:
        """Several locks, taken one after the other without deadlock. A transaction that would wait in a
        circle gives way with `DeadlockVictim`, and `run()` tries it again, up to `attempts` times.

        `policy` is "wait-die", "wound-wait", "timeout", "ordered" or "detect". `timeout` limits all waiting
        together. `patience` is for the policy "timeout": how long to wait for one lock, at first.
        The other options are `ttl`, `label`, `purpose` and `warn_after`, as for `lock`.
        """
        from fencelock.primitives.transaction import Transaction

        return Transaction(
            self._contexts,
            self._with_data(Lock, self._options(CommonOptions, options)),
            policy=policy,
            timeout=timeout,
            attempts=attempts,
            patience=patience,
        )

    def election(self, name: str, value: str = "", **options: Unpack[HoldOptions]) -> Election:
        """A candidate for the leadership of a name. `value` is what it tells the others, such as its
        address. The options are those of `lock`, but `reentrant` and `guard`; and the client's
        `warn_after` is not for leaders."""
        from fencelock.primitives.election import Election

        make = self._with_data(Lock, self._for_leader(HoldOptions, options))
        return Election(partial(make, name), value)

    @overload
    def once(self, name: str, work: Callable[[], T], **options: Unpack[OnceOptions]) -> T: ...
    @overload
    def once(self, name: str, work: TakesLease[Lease, T], **options: Unpack[OnceOptions]) -> T: ...
    def once(self, name: str, work: Callable[..., T], **options: Unpack[OnceOptions]) -> T:
        """Do some work once, and return its result to every caller within `keep` seconds from its
        beginning, a day if not given. Results are kept as JSON. With `errors=True` a failure is kept too,
        and later callers get `RanBefore`. If the work takes a `lease`, it gets one; `lease.abandoned` says
        that an earlier run began and did not end. A caller waits up to `timeout` while another does the
        work. The other options are `ttl`, `label`, `purpose` and `warn_after`, as for `lock`."""
        from fencelock.primitives.once import once

        if is_async(work):
            raise TypeError("a coroutine function needs an AsyncClient")
        lock = Lock(self._contexts, self._full(name), self._options(OnceOptions, options))
        keep, errors = options.get("keep", DAY), options.get("errors", False)
        return once(lock, work, keep=keep, errors=errors)

    def scheduled(
        self, name: str, *, at_most_every: Duration, **options: Unpack[CommonOptions]
    ) -> Schedule:
        """Decorate a job that many machines start at the same times: `@client.scheduled("report",
        at_most_every=3600)`. The job takes no arguments, or a `lease`. It runs once per period and never
        twice at a time; other calls return None at once. The period counts from the beginning of the last
        run, by the engine's clock. A run that failed or died does not count: the next call runs the job.
        A period without any call is not made up for."""
        from fencelock.primitives.once import scheduled

        made = self._options(CommonOptions, options)
        return scheduled(Lock(self._contexts, self._full(name), made), at_most_every)

    def locked(self, name: str, **options: Unpack[Options]) -> Decorator:
        """Decorate a function to run under a lock: `@client.locked("report:{day}", ttl=60)`.

        The call's arguments fill in the name. A parameter called `lease` gets the lease, and callers leave
        it out. Make it the first one (after `self`), so that type checkers know it: they can't leave out
        any other. The options are those of `lock`.
        """
        from fencelock.primitives.locked import locked

        self.lock("any name", **options)  # a wrong option is refused here
        options.setdefault("guard", None)  # if it is missing, that has been said now
        return locked(name, lambda filled: self.lock(filled, **options))

    close = blocking(AsyncClient.close)

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()
