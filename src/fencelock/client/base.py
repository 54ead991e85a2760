"""What a client is, in both worlds: from a URL to an engine, and from a name to a lock."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar

from fencelock.core.errors import EngineError, UnsafeEngine, Unsupported
from fencelock.core.names import check_name
from fencelock.core.ticket import ALONE, Inspection, Owner, Share
from fencelock.engines.contract import NO_SHARING, Guarantee, Traits
from fencelock.engines.registry import open_engine
from fencelock.io.contract import IO
from fencelock.primitives.claim import Claim
from fencelock.primitives.context import Context
from fencelock.primitives.contexts import Contexts
from fencelock.primitives.lock import BaseLock
from fencelock.primitives.rwlock import ReadWriteLock
from fencelock.primitives.sweeper import REQUEST_TIMEOUT

if TYPE_CHECKING:
    from fencelock.engines.routing import Routes
    from fencelock.guards.stamp import AsyncBarrier, Barrier
    from fencelock.primitives.once import Once

L = TypeVar("L")
K = TypeVar("K", bound=BaseLock[Any])
A = TypeVar("A")
X = TypeVar("X")
E = TypeVar("E")

OnLost = Callable[[L], Any] | Literal["cancel"] | None
"""Called with the lease when that is lost; asyncio also has "cancel"."""


def default_url() -> str:
    """`FENCELOCK_URL`, or a file in the user's state folder: one per user and machine."""
    url = os.environ.get("FENCELOCK_URL")
    if url:
        return url
    state = os.environ.get("XDG_STATE_HOME") or os.path.expanduser("~/.local/state")
    return f"sqlite:///{os.path.join(state, 'fencelock', 'locks.db')}"


class BaseClient(Generic[L, K, A, X, E]):
    """What a client is, in both worlds."""

    _kind: type[K]

    # The other primitives are imported when they are first used: most programs need locks only.

    @property
    def _several(self) -> Callable[[Sequence[K], float | None], A]:
        raise NotImplementedError

    @property
    def _transaction(self) -> Callable[..., X]:
        raise NotImplementedError

    @property
    def _election(self) -> Callable[[Callable[[str], K], str], E]:
        raise NotImplementedError

    def __init__(
        self,
        url: str | Routes | None,
        new_io: Callable[[], IO],
        ttl: float | None,
        label: str,
        purpose: Guarantee,
    ) -> None:
        self._owner = _owner(label)
        self._contexts = Contexts(_opener(default_url() if url is None else url, new_io))
        self._check_ttl = self.traits.check_ttl
        self._ttl = None if ttl is None else self._check_ttl(ttl)
        self._purpose = purpose
        self._allow(purpose)

    @property
    def traits(self) -> Traits:
        """What the engine behind this client can and can't promise."""
        return self._contexts.traits

    @property
    def _context(self) -> Context:
        """What this client has in this process and event loop."""
        return self._contexts.here()

    def rwlock(
        self,
        name: str,
        *,
        ttl: float | None = None,
        timeout: float | None = None,
        label: str | None = None,
        reentrant: bool = False,
        on_lost: OnLost[L] = None,
        purpose: Guarantee | None = None,
        guard: Barrier | AsyncBarrier | None = None,
    ) -> ReadWriteLock[K]:
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
        on_lost: OnLost[L] = None,
        purpose: Guarantee | None = None,
    ) -> K:
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
        on_lost: OnLost[L] = None,
        purpose: Guarantee | None = None,
    ) -> A:
        """Several locks at once, all or nothing, taken in one order by everyone who does it this way.
        `timeout` is for all of them together."""
        locks = self._each(names, ttl, timeout, label, False, on_lost, purpose)
        return self._several(locks, timeout)

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
    ) -> X:
        """Several locks, taken one after the other without deadlock: whoever would wait in a circle gives
        way, with `DeadlockVictim`, and `run()` tries it again. `policy` is "wait-die", "wound-wait",
        "timeout", "ordered" or "detect"; `timeout` is for all it waits, `attempts` how often it is tried.
        `patience` is for the policy "timeout": how long to wait for a lock, at first."""
        return self._transaction(
            self._contexts,
            lambda name, data: self._lock(name, ttl, None, label, False, None, purpose, data=data),
            policy=policy,
            timeout=timeout,
            attempts=attempts,
            patience=patience,
        )

    def election(
        self,
        name: str,
        value: str = "",
        *,
        ttl: float | None = None,
        timeout: float | None = None,
        label: str | None = None,
        on_lost: OnLost[L] = None,
        purpose: Guarantee | None = None,
    ) -> E:
        """A candidate for the leadership of a name; `value` is what it tells the others, such as its
        address."""
        options = (name, ttl, timeout, label, False, on_lost, purpose)
        return self._election(self._office(*options), value)

    def _allow(self, purpose: Guarantee) -> None:
        if purpose not in ("efficiency", "correctness"):
            raise ValueError(f"purpose must be 'efficiency' or 'correctness', not {purpose!r}")
        if purpose == "correctness" and self.traits.guarantee != "correctness":
            raise UnsafeEngine(
                "this engine can only promise an efficiency lock: in a failover, a restart or a clock "
                "jump two holders are possible. For a correctness lock use etcd:// or zookeeper://, or "
                "sqlite:// on one machine, or postgresql:// or mysql:// on one server whose clock is never "
                "set forward (traits.condition has the details); or keep this engine with "
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
        data: str = "",
    ) -> K:
        if purpose is not None:
            self._allow(purpose)
        owner = self._owner if label is None else _owner(label)
        return self._kind(
            self._contexts,
            check_name(name),
            self._ttl if ttl is None else self._check_ttl(ttl),
            timeout,
            owner._replace(data=data) if data else owner,
            reentrant,
            on_lost,
            guard,
            share,
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
        return lambda value: self._lock(*options, data=value)

    def _once(
        self, name: str, work: Callable[..., Any], keep: float, *options: Any, **kinds: bool
    ) -> tuple[K, Once]:
        from fencelock.primitives.once import Once

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
        if not self.traits.supports_sharing:
            raise Unsupported(NO_SHARING)

    async def _inspect(self, name: str, limit: int) -> Inspection:
        if type(limit) is not int or limit < 0:
            raise ValueError(f"limit must be a whole number, zero or more, not {limit!r}")
        return await self._context.engine.inspect(
            check_name(name), limit=limit, timeout=REQUEST_TIMEOUT
        )

    async def _names(self, pattern: str) -> list[str]:
        if not isinstance(pattern, str):
            raise TypeError(f"a pattern must be a str, not {type(pattern).__name__}")
        return await self._context.engine.names(pattern, timeout=REQUEST_TIMEOUT)

    async def _break_lock(self, name: str) -> bool:
        context = self._context
        broken = await context.engine.evict(check_name(name), timeout=REQUEST_TIMEOUT)
        ours = [claim for claim in context.every() if claim.ticket.name == name and claim.was_held]
        if broken and ours:
            if context.io.blocking:
                await _notice_loss(context, ours)
            else:  # not in the caller's own task: the loss may cancel that
                await context.io.spawn(_notice_loss(context, ours), "fencelock-loss").join()
        return broken

    async def _close(self) -> None:
        await self._context.close()


async def _notice_loss(context: Context, ours: list[Claim]) -> None:
    """A lock was broken, perhaps one of ours. The engine knows which, and whether others hold it now."""
    sent, tickets = context.io.now(), [claim.ticket for claim in ours]
    try:
        standings = await context.engine.renew(tickets, timeout=REQUEST_TIMEOUT)
    except EngineError:
        return  # then the next renewal tells
    for claim, standing in zip(ours, standings, strict=True):
        reason = None if standing is None else claim.answered(standing, sent, context.io.now())
        if reason is not None:
            context.lose(claim, reason)


def _opener(url: str | Routes, new_io: Callable[[], IO]) -> Callable[[], Context]:
    """How to make a context for this URL."""

    def open_context() -> Context:
        io = new_io()
        if isinstance(url, str):
            return Context(open_engine(url, io), io)
        from fencelock.engines.routing import open_routed  # few programs need it

        return Context(open_routed(url, io, open_engine), io)

    return open_context


def _owner(label: str) -> Owner:
    if not isinstance(label, str):
        raise TypeError(f"a label must be a str, not {type(label).__name__}")
    if not label.isprintable() or len(label) > 200:
        raise ValueError("a label must be at most 200 printable characters")
    return Owner(os.uname().nodename.replace(" ", "-") or "localhost", os.getpid(), label)
