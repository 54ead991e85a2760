"""The testing clients: real clients on an engine in memory, with a clock that the test moves."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Self, cast

import fencelock
from fencelock.client.base import BaseClient
from fencelock.core.durations import Duration
from fencelock.core.errors import FencelockError
from fencelock.engines.contract import Engine, Guarantee
from fencelock.engines.memory import MemoryStore
from fencelock.io.contract import IO
from fencelock.io.process import Origin
from fencelock.observe.observer import Observer
from fencelock.primitives.claim import EVICTED, RELEASED, Claim
from fencelock.primitives.lease import BaseLease
from fencelock.testing.clock import Clock, Timeline
from fencelock.testing.engine import Faults, Operation, Outcome, TestingEngine
from fencelock.testing.io import ClockedAsyncioIO, ClockedBlockingIO, ClockedIO, played


class TestingClient(BaseClient):
    """What both testing clients can do besides what every client can."""

    __test__ = False  # pytest: this is no test, in spite of its name

    clock: Clock
    """The time of this client. It stands still until the test moves it."""
    _make_io: type[ClockedBlockingIO | ClockedAsyncioIO]

    def __init__(
        self,
        *,
        ttl: Duration | None = None,
        label: str = "",
        purpose: Guarantee = "efficiency",
        observers: Iterable[Observer] = (),
        warn_after: Duration | None = None,
        namespace: str | None = None,
    ) -> None:
        self._timeline = Timeline()
        self.clock = Clock(self._timeline)
        self._faults = Faults()
        self._store = MemoryStore()
        self._origin = Origin()
        self._new_io = partial(self._make_io, self._timeline)
        super().__init__(
            "memory://",
            ttl=ttl,
            label=label,
            purpose=purpose,
            observers=observers,
            warn_after=warn_after,
            namespace=namespace,
        )

    def _opener(self, url: object) -> Callable[[IO], Engine]:
        return self._open

    def _open(self, io: IO) -> Engine:
        if not self._origin.here:
            raise FencelockError(
                "a testing client stays in its process: in a test with several processes, use a real engine, "
                "for example sqlite:// with a file in tmp_path"
            )
        engine = TestingEngine(self._store, cast(ClockedIO, io), self._faults)
        engine.label = "memory"
        return engine

    @contextmanager
    def caller(self, name: str) -> Iterator[None]:
        """Play another caller in this block: as if another thread or task asked for locks and held them."""
        if not isinstance(name, str):
            raise TypeError(f"the name of a caller must be a str, not {type(name).__name__}")
        if not name:
            raise ValueError("a caller needs a name")
        token = played.set(name)
        try:
            yield
        finally:
            played.reset(token)

    def expire(self, lease: BaseLease) -> None:
        """Let the ttl of this lease pass, as if its holder stood still. The lease is lost, and the next
        waiter gets the lock. The clock moves by the ttl, and other leases are renewed in that time."""
        claim = self._held(lease)
        self._faults.silent.add(claim.ticket.id)
        try:
            self._timeline.advance(claim.ticket.ttl)
        finally:
            self._faults.silent.discard(claim.ticket.id)

    def lose(self, lease: BaseLease, reason: str | None = None) -> None:
        """Lose this lease now, and free its lock. The clock does not move. Without a reason it is lost as if
        somebody broke the lock."""
        reason = EVICTED if reason is None else reason
        if not isinstance(reason, str):
            raise TypeError(f"the reason must be a str, not {type(reason).__name__}")
        if reason in ("", RELEASED):
            raise ValueError(f"a lease can't be lost for the reason {reason!r}")
        claim = self._held(lease)
        claim.context.lose(claim, reason)
        self._timeline.settle()

    def fail_next(
        self,
        operation: Operation,
        outcome: Outcome = "not applied",
        *,
        applied: bool = False,
        times: int = 1,
    ) -> None:
        """Let the next request of this kind fail with an `EngineError` of this outcome.

        With "unknown", `applied` says whether the engine has carried it out, and only the answer was lost.
        `times` is for how many requests: a client asks a second time before it gives up an `acquire`.
        """
        self._faults.plan(operation, outcome, applied=applied, times=times)

    def _held(self, lease: BaseLease) -> Claim:
        if not isinstance(lease, BaseLease):
            raise TypeError(f"this takes a lease, not {type(lease).__name__}")
        claim = lease._claim
        if claim.context.contexts is not self._contexts:
            raise ValueError(f"the lease on {lease.name!r} is not one of this client")
        if claim.reason is not None:
            raise ValueError(f"the lease on {lease.name!r} is {lease.state.value} already")
        return claim


class Client(TestingClient, fencelock.Client):
    """A `fencelock.Client` for tests of blocking code. Its locks are in memory; no other client sees them.

    `clock` is its time. A wait in the thread that made the client takes no real time: it moves the clock, up
    to its timeout, because nobody else could. Other threads wait until the lock is released or the clock is
    moved. The arguments are those of `fencelock.Client`, except for those that choose an engine.
    """

    _make_io = ClockedBlockingIO

    def __enter__(self) -> Self:
        return self


class AsyncClient(TestingClient, fencelock.AsyncClient):
    """A `fencelock.AsyncClient` for tests of asyncio code: as `Client`, with tasks in place of threads.

    A wait in the test's own task moves the clock. That is the first task that asks for a lock.
    """

    _make_io = ClockedAsyncioIO

    async def __aenter__(self) -> Self:
        return self
