"""The clients: from a URL to an engine to locks."""

from __future__ import annotations

import inspect
import os
import socket
from collections.abc import Awaitable, Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar

from holdfast.core.errors import UnsafeEngine, Unsupported
from holdfast.core.names import check_name
from holdfast.core.ticket import ALONE, Inspection, Owner, Share
from holdfast.engines.contract import NO_SHARING, Engine, Guarantee, Traits
from holdfast.engines.registry import open_engine
from holdfast.io.asyncio import AsyncioIO
from holdfast.io.blocking import BlockingIO, run
from holdfast.io.contract import IO
from holdfast.primitives.election import AsyncElection, Election
from holdfast.primitives.keeper import Keeper
from holdfast.primitives.lease import AsyncLease, Lease
from holdfast.primitives.lock import AsyncLock, BaseLock, Lock
from holdfast.primitives.locked import AsyncDecorator, Decorator, async_locked, locked
from holdfast.primitives.once import Once, async_once, async_scheduled, once, scheduled
from holdfast.primitives.rwlock import ReadWriteLock
from holdfast.primitives.several import AsyncLockAll, LockAll
from holdfast.primitives.sweeper import REQUEST_TIMEOUT
from holdfast.primitives.transaction import AsyncTransaction, Transaction

if TYPE_CHECKING:
    from holdfast.engines.routing import Routes
    from holdfast.guards.stamp import AsyncBarrier, Barrier

K = TypeVar("K", bound=BaseLock[Any])
T = TypeVar("T")

DAY = 86_400.0


def default_url() -> str:
    """`HOLDFAST_URL`, or a file in the user's state folder: one per user and machine."""
    url = os.environ.get("HOLDFAST_URL")
    if url:
        return url
    state = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return f"sqlite:///{Path(state) / 'holdfast' / 'locks.db'}"


class _BaseClient(Generic[K]):
    """What a client is, in both worlds."""

    _kind: type[K]

    def __init__(
        self,
        url: str | Routes | None,
        io: IO,
        ttl: float | None,
        label: str,
        purpose: Guarantee,
    ) -> None:
        self._io = io
        self._owner = _owner(label)
        self._engine = _open(default_url() if url is None else url, io)
        self._ttl = self.traits.default_ttl if ttl is None else self.traits.check_ttl(ttl)
        self._keeper = Keeper(self._engine, io)
        self._purpose = purpose
        self._allow(purpose)

    @property
    def traits(self) -> Traits:
        """What the engine behind this client can and can't promise."""
        return self._engine.traits

    def _allow(self, purpose: Guarantee) -> None:
        if purpose not in ("efficiency", "correctness"):
            raise ValueError(f"purpose must be 'efficiency' or 'correctness', not {purpose!r}")
        if purpose == "correctness" and self.traits.guarantee != "correctness":
            raise UnsafeEngine(
                "this engine can only promise an efficiency lock: in a failover, a restart or a clock "
                "jump two holders are possible. For a correctness lock use sqlite:// (one machine), "
                "etcd://, zookeeper://, postgresql:// or mysql:// (many); or keep this engine with "
                "purpose='efficiency' and let your storage check the fence"
            )

    def _lock(
        self,
        name: str,
        ttl: float | None,
        timeout: float | None,
        label: str | None,
        reentrant: bool,
        on_lost: Any,
        purpose: Guarantee | None,
        *,
        guard: Any = None,
        share: Share = ALONE,
        note: str = "",
    ) -> K:
        if purpose is not None:
            self._allow(purpose)
        return self._kind(
            self._keeper,
            check_name(name),
            ttl=self._ttl if ttl is None else self.traits.check_ttl(ttl),
            timeout=timeout,
            owner=(self._owner if label is None else _owner(label))._replace(note=note),
            reentrant=reentrant,
            on_lost=on_lost,
            guard=guard,
            share=share,
        )

    def _rwlock(self, name: str, guard: Any, *options: Any) -> ReadWriteLock[K]:
        self._share()

        def make(share: Share) -> K:
            # Readers don't write, and they may come to the storage in another order than their fences.
            return self._lock(name, *options, guard=None if share.group else guard, share=share)

        return ReadWriteLock(make(ALONE).name, make)

    def _semaphore(self, name: str, permits: int, weight: int, *options: Any) -> K:
        self._share()
        for what, number in (("permits", permits), ("weight", weight)):
            if type(number) is not int or not 0 < number < 2**31:
                raise ValueError(f"{what} must be a whole number, one or more, not {number!r}")
        if weight > permits:
            raise ValueError(f"weight is {weight}, but there are only {permits} permits")
        return self._lock(name, *options, share=Share.of(permits, weight))

    def _office(self, *options: Any) -> Callable[[str], K]:
        return lambda value: self._lock(*options, note=value)

    def _once(
        self, name: str, work: Callable[..., Any], keep: float, *options: Any, **kinds: bool
    ) -> tuple[K, Once]:
        lock = self._lock(name, *options)
        return lock, Once(lock, work, keep=keep, **kinds)

    def _each(self, names: Iterable[str], *options: Any) -> list[K]:
        if isinstance(names, str):
            raise TypeError("lock_all takes several names: for one there is lock()")
        locks = [self._lock(name, *options) for name in names]
        if not locks:
            raise ValueError("lock_all needs at least one name")
        if len({lock.name for lock in locks}) < len(locks):
            raise ValueError("lock_all needs each name once: nobody can hold a lock twice")
        return locks

    def _share(self) -> None:
        if not self.traits.sharing:
            raise Unsupported(NO_SHARING)

    async def _inspect(self, name: str, limit: int) -> Inspection:
        self._io.verify()
        if type(limit) is not int or limit < 0:
            raise ValueError(f"limit must be a whole number, zero or more, not {limit!r}")
        return await self._engine.inspect(check_name(name), limit=limit, timeout=REQUEST_TIMEOUT)

    async def _names(self, pattern: str) -> list[str]:
        self._io.verify()
        if not isinstance(pattern, str):
            raise TypeError(f"a pattern must be a str, not {type(pattern).__name__}")
        return await self._engine.names(pattern, timeout=REQUEST_TIMEOUT)

    async def _break_lock(self, name: str) -> bool:
        self._io.verify()
        return await self._engine.evict(check_name(name), timeout=REQUEST_TIMEOUT)

    async def _close(self) -> None:
        self._io.verify()
        await self._keeper.close()
        await self._engine.close()
        await self._io.close()


def _open(url: str | Routes, io: IO) -> Engine:
    if isinstance(url, str):
        return open_engine(url, io)
    from holdfast.engines.routing import open_routed  # most have one engine

    return open_routed(url, io, open_engine)


def _owner(label: str) -> Owner:
    if not isinstance(label, str):
        raise TypeError(f"a label must be a str, not {type(label).__name__}")
    if not label.isprintable() or len(label) > 200:
        raise ValueError("a label must be at most 200 printable characters")
    return Owner(socket.gethostname().replace(" ", "-") or "localhost", os.getpid(), label)


class Client(_BaseClient[Lock]):
    """Locks for blocking programs. Safe to share between threads; make a new one after a fork.

    `url` chooses the engine; without one it is `HOLDFAST_URL` or a SQLite file in the user's state
    folder. A dict, `{"order:*": url1, "*": url2}`, gives each name the engine of the first pattern that
    matches it; several URLs for one pattern are chosen from by the name's hash. `ttl` is the default for
    this client's locks, 30 seconds if not given. `label` says who you are in listings.
    `purpose="correctness"` refuses engines that can't promise it.
    """

    _kind = Lock

    def __init__(
        self,
        url: str | Routes | None = None,
        *,
        ttl: float | None = None,
        label: str = "",
        purpose: Guarantee = "efficiency",
    ) -> None:
        super().__init__(url, BlockingIO(), ttl, label, purpose)

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
        `guard` refuses older holders before you have the lease: what you then read stays true."""
        return self._lock(name, ttl, timeout, label, reentrant, on_lost, purpose, guard=guard)

    def rwlock(
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
    ) -> ReadWriteLock[Lock]:
        """A read-write lock: `rwlock(name).read()` and `.write()` are locks with these options. The
        guard is for those who write."""
        return self._rwlock(name, guard, ttl, timeout, label, reentrant, on_lost, purpose)

    def semaphore(
        self,
        name: str,
        permits: int,
        *,
        weight: int = 1,
        ttl: float | None = None,
        timeout: float | None = None,
        label: str | None = None,
        on_lost: Callable[[Lease], Any] | None = None,
        purpose: Guarantee | None = None,
    ) -> Lock:
        """A lock that as many hold together as there are permits; `weight` is how many of them each
        lease of this one takes."""
        return self._semaphore(name, permits, weight, ttl, timeout, label, False, on_lost, purpose)

    def lock_all(
        self,
        names: Iterable[str],
        *,
        ttl: float | None = None,
        timeout: float | None = None,
        label: str | None = None,
        on_lost: Callable[[Lease], Any] | None = None,
        purpose: Guarantee | None = None,
    ) -> LockAll:
        """Several locks at once, all or nothing, taken in one order by everyone who does it this way.
        `timeout` is for all of them together."""
        locks = self._each(names, ttl, timeout, label, False, on_lost, purpose)
        return LockAll(locks, timeout)

    def election(
        self,
        name: str,
        value: str = "",
        *,
        ttl: float | None = None,
        timeout: float | None = None,
        label: str | None = None,
        on_lost: Callable[[Lease], Any] | None = None,
        purpose: Guarantee | None = None,
    ) -> Election:
        """A candidate for the leadership of a name; `value` is what it tells the others, such as its
        address."""
        options = (name, ttl, timeout, label, False, on_lost, purpose)
        return Election(self._office(*options), value)

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
        if inspect.iscoroutinefunction(work):
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
        options = (ttl, 0.0, label, False, None, purpose)
        return scheduled(lambda job: self._once(name, job, at_most_every, *options, results=False))

    def transaction(
        self,
        policy: str = "wait-die",
        *,
        ttl: float | None = None,
        timeout: float | None = None,
        attempts: int = 100,
        patience: float = 0.5,
        label: str | None = None,
        purpose: Guarantee | None = None,
    ) -> Transaction:
        """Several locks, taken one after the other without deadlock: whoever would wait in a circle gives
        way, with `DeadlockVictim`, and `run()` tries it again. `policy` is "wait-die", "wound-wait",
        "timeout", "ordered" or "detect"; `timeout` is for all it waits, `attempts` how often it is tried.
        `patience` is for the policy "timeout": how long to wait for a lock, at first."""
        return Transaction(
            self._keeper,
            lambda name, note: self._lock(name, ttl, None, label, False, None, purpose, note=note),
            policy=policy,
            timeout=timeout,
            attempts=attempts,
            patience=patience,
        )

    def locked(self, name: str, **options: Any) -> Decorator:
        """Decorate a function to run under a lock: `@client.locked("report:{day}", ttl=60)`.

        The name is filled in from the call's arguments; a `lease` parameter gets the lease.
        """
        self.lock("any name", **options)  # a misspelt option is noticed here
        return locked(name, lambda filled: self.lock(filled, **options))

    def inspect(self, name: str, *, limit: int = 100) -> Inspection:
        """Who holds a name and who waits for it."""
        return run(self._inspect(name, limit))

    def names(self, pattern: str = "*") -> list[str]:
        """The names that are held or waited for now, e.g. `names("order:*")`."""
        return run(self._names(pattern))

    def break_lock(self, name: str) -> bool:
        """Take a lock from whoever holds it. Its holder learns at its next renewal. False: nobody did."""
        return run(self._break_lock(name))

    def close(self) -> None:
        """Release what is still held and close the connections."""
        run(self._close())

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


class AsyncClient(_BaseClient[AsyncLock]):
    """Locks for asyncio programs. One per event loop; the first use binds it to the running loop.

    The arguments are those of `Client`.
    """

    _kind = AsyncLock

    def __init__(
        self,
        url: str | Routes | None = None,
        *,
        ttl: float | None = None,
        label: str = "",
        purpose: Guarantee = "efficiency",
    ) -> None:
        super().__init__(url, AsyncioIO(), ttl, label, purpose)

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

    def rwlock(
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
    ) -> ReadWriteLock[AsyncLock]:
        """A read-write lock: `rwlock(name).read()` and `.write()` are locks with these options. The
        guard is for those who write."""
        return self._rwlock(name, guard, ttl, timeout, label, reentrant, on_lost, purpose)

    def semaphore(
        self,
        name: str,
        permits: int,
        *,
        weight: int = 1,
        ttl: float | None = None,
        timeout: float | None = None,
        label: str | None = None,
        on_lost: Callable[[AsyncLease], Any] | Literal["cancel"] | None = None,
        purpose: Guarantee | None = None,
    ) -> AsyncLock:
        """A lock that as many hold together as there are permits; `weight` is how many of them each
        lease of this one takes."""
        return self._semaphore(name, permits, weight, ttl, timeout, label, False, on_lost, purpose)

    def lock_all(
        self,
        names: Iterable[str],
        *,
        ttl: float | None = None,
        timeout: float | None = None,
        label: str | None = None,
        on_lost: Callable[[AsyncLease], Any] | Literal["cancel"] | None = None,
        purpose: Guarantee | None = None,
    ) -> AsyncLockAll:
        """Several locks at once, all or nothing, taken in one order by everyone who does it this way.
        `timeout` is for all of them together."""
        locks = self._each(names, ttl, timeout, label, False, on_lost, purpose)
        return AsyncLockAll(locks, timeout)

    def election(
        self,
        name: str,
        value: str = "",
        *,
        ttl: float | None = None,
        timeout: float | None = None,
        label: str | None = None,
        on_lost: Callable[[AsyncLease], Any] | None = None,
        purpose: Guarantee | None = None,
    ) -> AsyncElection:
        """A candidate for the leadership of a name; `value` is what it tells the others, such as its
        address."""
        options = (name, ttl, timeout, label, False, on_lost, purpose)
        return AsyncElection(self._office(*options), value)

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
        if not inspect.iscoroutinefunction(work):
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
        options = (ttl, 0.0, label, False, None, purpose)
        return async_scheduled(
            lambda job: self._once(name, job, at_most_every, *options, results=False)
        )

    def transaction(
        self,
        policy: str = "wait-die",
        *,
        ttl: float | None = None,
        timeout: float | None = None,
        attempts: int = 100,
        patience: float = 0.5,
        label: str | None = None,
        purpose: Guarantee | None = None,
    ) -> AsyncTransaction:
        """Several locks, taken one after the other without deadlock: whoever would wait in a circle gives
        way, with `DeadlockVictim`, and `run()` tries it again. `policy` is "wait-die", "wound-wait",
        "timeout", "ordered" or "detect"; `timeout` is for all it waits, `attempts` how often it is tried.
        `patience` is for the policy "timeout": how long to wait for a lock, at first."""
        return AsyncTransaction(
            self._keeper,
            lambda name, note: self._lock(name, ttl, None, label, False, None, purpose, note=note),
            policy=policy,
            timeout=timeout,
            attempts=attempts,
            patience=patience,
        )

    def locked(self, name: str, **options: Any) -> AsyncDecorator:
        """Decorate a coroutine function to run under a lock: `@client.locked("report:{day}")`."""
        self.lock("any name", **options)  # a misspelt option is noticed here
        return async_locked(name, lambda filled: self.lock(filled, **options))

    async def inspect(self, name: str, *, limit: int = 100) -> Inspection:
        """Who holds a name and who waits for it."""
        return await self._inspect(name, limit)

    async def names(self, pattern: str = "*") -> list[str]:
        """The names that are held or waited for now, e.g. `names("order:*")`."""
        return await self._names(pattern)

    async def break_lock(self, name: str) -> bool:
        """Take a lock from whoever holds it. Its holder learns at its next renewal. False: nobody did."""
        return await self._break_lock(name)

    async def close(self) -> None:
        """Release what is still held and close the connections."""
        await self._close()

    async def __aenter__(self) -> AsyncClient:
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.close()
