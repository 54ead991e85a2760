"""The options that callers give to a client, each declared once.

The methods of the clients take them as `**options: Unpack[…]`, so a type checker knows each option in each
method, and an editor completes it. A program can do the same in a function that passes options on.
A duration is a number of seconds or a `timedelta`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypedDict

from fencelock.core.durations import Duration
from fencelock.engines.contract import Guarantee

if TYPE_CHECKING:
    from fencelock.guards.lease_like import AsyncBarrier, Barrier
    from fencelock.observe.observer import Observer
    from fencelock.primitives.lease import AsyncLease, Lease

PolicyName = Literal["wait-die", "wound-wait", "timeout", "ordered", "detect"]
"""How a transaction avoids deadlocks: docs/primitives/transactions.md."""


class KnowsOptions(Protocol):
    """Any of the classes below, at run time."""

    __optional_keys__: frozenset[str]


class CommonOptions(TypedDict, total=False):
    """Options of everything that a client makes."""

    ttl: Duration | None
    """Seconds that a lease lives unless it is renewed. None: the client's ttl."""
    label: str | None
    """Says in listings and messages who holds or waits. None: the client's label."""
    purpose: Guarantee | None
    """With "correctness" an engine that can't promise that is refused. None: the client's purpose."""
    warn_after: Duration | None
    """Seconds after which the log says where a lease that is still held was acquired. None: the
    client's."""


class ClientOptions(TypedDict, total=False):
    """Options of a client, besides its URL and credentials."""

    ttl: Duration | None
    label: str
    purpose: Guarantee
    observers: Iterable[Observer]
    warn_after: Duration | None
    diagnose: bool
    namespace: str | None


class OnceOptions(CommonOptions, total=False):
    """Options of `once`."""

    keep: Duration
    """Seconds for which the result is kept, from the beginning of the work."""
    errors: bool
    """Keeps a failure too."""
    timeout: Duration | None
    """Seconds to wait while another caller does the work. None waits for ever, 0 does not wait."""


class AttachOptions(CommonOptions, total=False):
    """Options of `Client.attach`."""

    on_lost: Callable[[Lease], Any] | None
    """Is called with the lease when that is lost."""
    renew: bool
    """False: the lease lives for its ttl and is not renewed, unless the caller does it."""
    max_hold: Duration | None
    """Seconds after which the lease is lost, even if its holder goes on."""


class HoldOptions(AttachOptions, total=False):
    """Options of `Client.semaphore`, `lock_all` and `election`."""

    timeout: Duration | None
    """Seconds to wait. None waits for ever, 0 does not wait."""


class RateOptions(TypedDict, total=False):
    """Options of `rate`."""

    weight: int
    """How many permits each acquire takes: 1 if not given."""
    ttl: Duration | None
    """Seconds after which a waiter that died loses its place. None: the client's ttl."""
    timeout: Duration | None
    """Seconds to wait. None waits for ever, 0 does not wait."""
    label: str | None
    """Says in listings and messages who took a permit or waits. None: the client's label."""
    purpose: Guarantee | None
    """With "correctness" an engine that can't promise that is refused. None: the client's purpose."""


class Options(HoldOptions, total=False):
    """Options of `Client.lock`, `rwlock` and `locked`."""

    reentrant: bool
    """A thread that holds the lock may take it again."""
    guard: Barrier | None
    """Refuses older holders before the caller has its lease."""


class AsyncAttachOptions(CommonOptions, total=False):
    """Options of `AsyncClient.attach`."""

    on_lost: Callable[[AsyncLease], Any] | Literal["cancel"] | None
    """Is called with the lease when that is lost. "cancel" cancels the body of the `async with`."""
    renew: bool
    """False: the lease lives for its ttl and is not renewed, unless the caller does it."""
    max_hold: Duration | None
    """Seconds after which the lease is lost, even if its holder goes on."""


class AsyncHoldOptions(AsyncAttachOptions, total=False):
    """Options of `AsyncClient.semaphore`, `lock_all` and `election`."""

    timeout: Duration | None
    """Seconds to wait. None waits for ever, 0 does not wait."""


class AsyncOptions(AsyncHoldOptions, total=False):
    """Options of `AsyncClient.lock`, `rwlock` and `locked`."""

    reentrant: bool
    """A task that holds the lock may take it again."""
    guard: AsyncBarrier | None
    """Refuses older holders before the caller has its lease."""
