"""The contenders: processes with workers that lock, work, lose leases, are cancelled and try again."""

from __future__ import annotations

from random import Random

from fencelock.core.errors import (
    EngineError,
    FencelockError,
    LeaseLost,
    LockTimeout,
    WouldDeadlock,
)
from fencelock.core.ticket import Owner
from fencelock.io.simulated import Cancelled, SimulatedIO, SimulatedTask, World
from fencelock.primitives.context import Context
from fencelock.primitives.contexts import Contexts
from fencelock.primitives.lease import AsyncLease
from fencelock.primitives.lock import AsyncLock
from fencelock.primitives.options import LockOptions
from fencelock.torture.history import Attempt, Grant, History
from fencelock.torture.network import FaultyEngine
from fencelock.torture.storage import GuardedCounters

TTLS = (0.5, 1.0, 2.0, 5.0)
"""Short, so that leases often end before the work does."""


class SimulatedClient:
    """One process and its client: the parts of an `AsyncClient`, on the simulated io."""

    def __init__(self, io: SimulatedIO, engine: FaultyEngine, context: Context) -> None:
        self.io = io
        self.engine = engine
        self.context = context
        self.contexts = Contexts(lambda: context)


class Worker:
    """Asks for locks again and again, in every way that the library offers."""

    def __init__(
        self, number: int, client: SimulatedClient, history: History, counters: GuardedCounters
    ) -> None:
        self.number = number
        self.client = client
        self.io = client.io
        self.world: World = client.io.world
        self.random: Random = self.world.random
        self.history = history
        self.counters = counters
        self.ttls = TTLS[: self.random.choice((1, 2, 4))]
        self.dozes = self.random.choice((0.0, 0.1, 0.4))

    async def run(self, later_attempts: int) -> None:
        """Work during the faults, then make one attempt that must succeed, then a few more."""
        history, world = self.history, self.world
        while world.time < history.calm_at and not self.client.context.closing:
            await self._attempt(self._patience(), cancel=0.25)
            await self.io.sleep(self.random.random() * 0.3)
        if self.client.context.closing:
            return
        await self._attempt(None, cancel=0.0, last=True)
        await self.io.sleep(max(0.0, history.settled_at - world.time) * self.io.rate)
        for _ in range(later_attempts):
            await self.io.sleep(self.random.random() * 0.5)
            await self._attempt(self._patience(), cancel=0.3)

    def _patience(self) -> float | None:
        return self.random.choice((None, 0.0, 0.05, 0.5, 3.0))

    async def _attempt(self, timeout: float | None, *, cancel: float, last: bool = False) -> None:
        """Make one attempt in a task of its own, so that it can be cancelled at any of its awaits."""
        random = self.random
        attempt = self.history.attempt(
            self.io, random.choice(self.history.names), random.choice(self.ttls), timeout, last=last
        )
        self.bound(attempt)
        task = self.io.spawn(self._try(attempt, timeout), attempt.label)
        if random.random() < cancel:
            # The first awaits are those of the acquire, where most can go wrong.
            task.cancel_at_await(1 + int(random.random() ** 2 * 40))
            if random.random() < 0.3:  # and once more, perhaps while it cleans up
                self.world.after(random.random() * 2.0, task.cancel)
        await task.join()
        self.history.over(attempt, self._outcome(task))

    def bound(self, attempt: Attempt) -> None:
        """Decide whether the lease ends by itself. Here it never does."""

    def _outcome(self, task: SimulatedTask) -> str:
        match task.error:
            case None:
                return str(task.result)
            case Cancelled():
                return "cancelled"
            case LockTimeout():
                return "timed out"
            case LeaseLost():
                return "lost"
            case EngineError():
                return "engine error"
            case FencelockError() if self.client.context.closing:
                return "closed"
            case error:
                self.world.failures.append((task, error))
                return "failed"

    async def _try(self, attempt: Attempt, timeout: float | None) -> str:
        random = self.random
        grants: list[Grant] = []

        def on_lost(lease: AsyncLease) -> None:
            self.history.lost(grants[0] if grants else None, lease)

        options = LockOptions(
            owner=Owner(self.io.name, self.client.context.pid, attempt.label),
            ttl=attempt.ttl,
            timeout=timeout,
            reentrant=random.random() < 0.2,
            on_lost=on_lost,
            renew=attempt.renew,
            max_hold=attempt.max_hold,
        )
        lock = AsyncLock(self.client.contexts, attempt.name, options)

        async def hold(lease: AsyncLease) -> None:
            grants.append(self.history.granted(attempt, lease))
            try:
                await self._body(lock, lease, grants[0])
            finally:
                self.history.releasing(grants[0])

        if timeout == 0.0 and random.random() < 0.7:
            lease = await lock.try_acquire()
            if lease is None:
                return "refused"
            async with lease:
                await hold(lease)
        elif random.random() < 0.5:
            async with lock as lease:
                await hold(lease)
        else:
            lease = await lock.acquire()
            try:
                await hold(lease)
            finally:
                await lease.release()
        return "done"

    async def _body(self, lock: AsyncLock, lease: AsyncLease, grant: Grant) -> None:
        random = self.random
        careless = random.random() < 0.3
        if random.random() < 0.15:
            await self._again(lock, lease)
        if random.random() < 0.25:
            await self._renew(lease)
        for _ in range(random.randrange(1, 3)):
            long = random.random() < 0.15  # so long that the lease must be renewed
            await self.io.sleep(lease.ttl * random.random() * (2.0 if long else 0.1))
            if not careless:
                self.check(lease, grant)
            if not await self.update(lease, careless):
                return

    async def update(self, lease: AsyncLease, careless: bool) -> bool:
        """Read, add one, write. Returns False if the storage refused it."""
        if not await self.counters.raise_fence(self.io, lease.name, lease.fence, lease.id):
            self.history.counts["stale fences refused"] += 1
            return False
        value = await self.counters.read(self.io, lease.name)
        await self.think(lease)
        if not careless:
            lease.check()
        self.doze(lease)
        written = await self.counters.write(self.io, lease.name, lease.fence, lease.id, value + 1)
        self.history.counts[
            f"acknowledged {lease.name}" if written else "stale writes refused"
        ] += 1
        return written

    async def think(self, lease: AsyncLease) -> None:
        """Pause between reading and writing, long enough for another holder to write in between."""
        if self.random.random() < 0.3:
            await self.io.sleep(lease.ttl * self.random.random() * 0.2)

    def doze(self, lease: AsyncLease) -> None:
        """Stop the process right after the check, perhaps beyond the end of its lease."""
        if self.random.random() < self.dozes and self.world.time < self.history.calm_at:
            self.history.pause(self.io, lease.ttl * (0.5 + self.random.random()))

    def check(self, lease: AsyncLease, grant: Grant) -> None:
        """Call `lease.check()`. It must raise after the deadline, also right after a pause."""
        lease.check()
        if self.world.time > grant.believed_until + 1e-6:
            grant.oddities.append("passed check() after its deadline")

    async def _again(self, lock: AsyncLock, lease: AsyncLease) -> None:
        """The same caller asks for the same lock again."""
        fence, held = lease.fence, lease.remaining() > 0.1
        try:
            async with lock as inner:
                if held and lock._reentrant and inner.fence != fence:
                    raise AssertionError("re-entered with another fence")
                await self.io.sleep(0.01)
        except WouldDeadlock:
            if lock._reentrant:
                raise

    async def _renew(self, lease: AsyncLease) -> None:
        """Renew by hand: here, or in a task that goes on when the lease has ended."""

        async def renew() -> None:
            try:
                await lease.renew(self.random.choice((None, *TTLS)))
            except (EngineError, LeaseLost):
                self.history.counts["renewals by hand that failed"] += 1

        renewing = self.io.spawn(renew(), "renewing")
        if self.random.random() < 0.5:
            await renewing.join()
