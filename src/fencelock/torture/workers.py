"""Who contends: processes with workers that lock, work, lose, get cancelled and try again."""

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
from fencelock.primitives.keeper import Keeper
from fencelock.primitives.lease import AsyncLease
from fencelock.primitives.lock import AsyncLock
from fencelock.primitives.options import LockOptions
from fencelock.torture.history import Attempt, Grant, History
from fencelock.torture.network import FaultyEngine
from fencelock.torture.storage import GuardedCounters

TTLS = (0.5, 1.0, 2.0, 5.0)
"""Short ones, for it is then that leases end before the work does."""


class Home:
    """A process with a client in it: what `AsyncClient` is made of, on the simulated io."""

    def __init__(self, io: SimulatedIO, engine: FaultyEngine, keeper: Keeper) -> None:
        self.io = io
        self.engine = engine
        self.keeper = keeper


class Worker:
    """Wants locks again and again, in every way one can want them."""

    def __init__(
        self, number: int, home: Home, history: History, counters: GuardedCounters
    ) -> None:
        self.number = number
        self.home = home
        self.io = home.io
        self.world: World = home.io.world
        self.random: Random = self.world.random
        self.history = history
        self.counters = counters
        self.ttls = TTLS[: self.random.choice((1, 2, 4))]
        self.dozes = self.random.choice((0.0, 0.1, 0.4))

    async def run(self, later_attempts: int) -> None:
        """Work through the faults, then once more for certain, then in peace."""
        history, world = self.history, self.world
        while world.time < history.calm_at and not self.home.keeper.closing:
            await self._attempt(self._patience(), cancel=0.25)
            await self.io.sleep(self.random.random() * 0.3)
        if self.home.keeper.closing:
            return
        await self._attempt(None, cancel=0.0, last=True)
        await self.io.sleep(max(0.0, history.settled_at - world.time) * self.io.rate)
        for _ in range(later_attempts):
            await self.io.sleep(self.random.random() * 0.5)
            await self._attempt(self._patience(), cancel=0.3)

    def _patience(self) -> float | None:
        return self.random.choice((None, 0.0, 0.05, 0.5, 3.0))

    async def _attempt(self, timeout: float | None, *, cancel: float, last: bool = False) -> None:
        """One attempt in a task of its own, so that it can be cancelled at any of its awaits."""
        random = self.random
        attempt = self.history.attempt(
            self.io, random.choice(self.history.names), random.choice(self.ttls), timeout, last=last
        )
        task = self.io.spawn(self._try(attempt, timeout), attempt.label)
        if random.random() < cancel:
            # The first awaits are those of the acquire, where there is most to go wrong.
            task.cancel_at_await(1 + int(random.random() ** 2 * 40))
            if random.random() < 0.3:  # and once more, perhaps while it cleans up
                self.world.after(random.random() * 2.0, task.cancel)
        await task.join()
        self.history.over(attempt, self._outcome(task))

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
            case FencelockError() if self.home.keeper.closing:
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
            owner=Owner(self.io.name, self.number, attempt.label),
            ttl=attempt.ttl,
            timeout=timeout,
            reentrant=random.random() < 0.2,
            on_lost=on_lost,
        )
        lock = AsyncLock(self.home.keeper, attempt.name, options)

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
            long = random.random() < 0.15  # so long that it must be renewed
            await self.io.sleep(lease.ttl * random.random() * (2.0 if long else 0.1))
            if not careless:
                self.check(lease, grant)
            if not await self.update(lease, careless):
                return

    async def update(self, lease: AsyncLease, careless: bool) -> bool:
        """Read, add one, write; False if the store turned it away."""
        if not await self.counters.raise_fence(self.io, lease.name, lease.fence, lease.id):
            self.history.counts["stale fences turned away"] += 1
            return False
        value = await self.counters.read(self.io, lease.name)
        await self.think(lease)
        if not careless:
            lease.check()
        self.doze(lease)
        written = await self.counters.write(self.io, lease.name, lease.fence, lease.id, value + 1)
        self.history.counts[
            f"acknowledged {lease.name}" if written else "stale writes turned away"
        ] += 1
        return written

    async def think(self, lease: AsyncLease) -> None:
        """Take a while between reading and writing: long enough for others to come in between."""
        if self.random.random() < 0.3:
            await self.io.sleep(lease.ttl * self.random.random() * 0.2)

    def doze(self, lease: AsyncLease) -> None:
        """The classic: it has just checked, and now it sleeps past the end of its lease."""
        if self.random.random() < self.dozes and self.world.time < self.history.calm_at:
            self.history.pause(self.io, lease.ttl * (0.5 + self.random.random()))

    def check(self, lease: AsyncLease, grant: Grant) -> None:
        """`lease.check()`, which must raise when the time is over, also right after a pause."""
        lease.check()
        if self.world.time > grant.believed_until + 1e-6:
            grant.oddities.append("passed check() after its deadline")

    async def _again(self, lock: AsyncLock, lease: AsyncLease) -> None:
        """The same caller wants the same lock."""
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
        """Renew by hand: here, or in a task that does not care what becomes of the lease."""

        async def renew() -> None:
            try:
                await lease.renew(self.random.choice((None, *TTLS)))
            except (EngineError, LeaseLost):
                self.history.counts["renewals by hand that failed"] += 1

        renewing = self.io.spawn(renew(), "renewing")
        if self.random.random() < 0.5:
            await renewing.join()
