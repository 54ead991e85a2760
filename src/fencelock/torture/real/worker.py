"""One worker of a torture run, a process of its own: it takes locks, and adds one to what they protect.

It reads its job from stdin, then one order per line; when stdin is closed, it ends. What it does goes into
its journal. A moment from which a holder counts as sure is read *before* `lease.check()`: so it is true even
if the process is stopped in between.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import random
import sys
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable
from inspect import isawaitable
from pathlib import Path
from typing import Any, NamedTuple

from fencelock.client import AsyncClient, Client
from fencelock.core.errors import (
    EngineError,
    FencelockError,
    LeaseLost,
    LockTimeout,
    StaleFence,
)
from fencelock.guards.lease_like import LeaseLike, RemoteLease, holder_of
from fencelock.io.blocking import run
from fencelock.io.clock import now
from fencelock.io.helper_process import die_with_parent, leave_ctrl_c_to_parent
from fencelock.observe.events import EngineRequest, Event, Queued
from fencelock.torture.real.journal import Journal, Pulse
from fencelock.torture.real.register import Register, register_at

CHECK_EVERY = 0.05
"""Seconds of work between two calls of `lease.check()`, in a careful turn."""


class Job(NamedTuple):
    """What a worker does."""

    worker: str
    url: str
    """Sent by stdin: other users of the machine can see a password in the arguments of a process."""
    storage: str
    run: str
    """The name of the run."""
    journal: str
    names: list[str]
    primitive: str
    permits: int
    ttl: float
    face: str
    """"sync" or "async"."""
    rest: float
    """The mean pause between two turns, in seconds."""
    bare: bool
    """Whether to keep a number without a guard, too."""
    seed: str
    parent: int
    """The process with which to die; 0: none."""


class Barrier:
    """The guard of the register, for `lock(…, guard=…)`."""

    def __init__(self, worker: Worker) -> None:
        self._worker = worker

    def raise_fence(self, lease: LeaseLike) -> None:
        """Refuse all older holders from now on."""
        run(self._worker.raise_fence(lease))


class AsyncBarrier(Barrier):
    """The same for an `AsyncClient`."""

    async def raise_fence(self, lease: LeaseLike) -> None:  # type: ignore[override]
        await self._worker.raise_fence(lease)


class Face(ABC):
    """How the client is used: blocking, or in an event loop."""

    client: Any
    barrier: type[Barrier]

    async def done(self, answer: Any) -> Any:
        """The answer of the client."""
        return await answer if isawaitable(answer) else answer

    @abstractmethod
    async def sleep(self, seconds: float) -> None: ...

    @abstractmethod
    async def call(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Call what blocks: the storage."""


class Blocking(Face):
    barrier = Barrier

    def __init__(self, *arguments: Any, **options: Any) -> None:
        self.client = Client(*arguments, **options)
        self._never = threading.Event()

    async def sleep(self, seconds: float) -> None:
        self._never.wait(seconds)

    async def call(self, function: Callable[..., Any], *arguments: Any) -> Any:
        return function(*arguments)


class Asynchronous(Face):
    barrier = AsyncBarrier

    def __init__(self, *arguments: Any, **options: Any) -> None:
        self.client = AsyncClient(*arguments, **options)

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    async def call(self, function: Callable[..., Any], *arguments: Any) -> Any:
        return await asyncio.to_thread(function, *arguments)


class Orders:
    """What the coordinator has ordered, by stdin."""

    def __init__(self) -> None:
        self.end = threading.Event()
        self.late = 0.0
        """If not 0: the next write arrives so many seconds late."""
        threading.Thread(target=self._listen, name="orders", daemon=True).start()

    def _listen(self) -> None:
        for line in sys.stdin:
            self.late = float(json.loads(line)["late"])
        self.end.set()

    def take_late(self) -> float:
        """The delay of this write."""
        late, self.late = self.late, 0.0
        return late


class Worker:
    """Takes turns until it is told to end."""

    def __init__(self, job: Job) -> None:
        self.job = job
        self.random = random.Random(job.seed)
        self.journal = Journal(Path(job.journal))
        self.register: Register = register_at(job.storage, job.run)
        kind = Blocking if job.face == "sync" else Asynchronous
        self.face: Face = kind(job.url, ttl=job.ttl, label=job.worker, observers=[self._observe])
        self.orders = Orders()
        self._numbers = itertools.count(1)
        self._number = 0
        self._sure = 0.0
        self._couriers: list[threading.Thread] = []

    async def work(self) -> None:
        """Take turns. At the end nothing is held."""
        pulse = Pulse(self.journal)
        self.journal.write("ready", pid=os.getpid())
        while not self.orders.end.is_set():
            await self.turn()
            await self.face.sleep(self.random.expovariate(1 / self.job.rest))
        for courier in self._couriers:
            courier.join()
        await self.face.done(self.face.client.close())
        pulse.end()
        self.journal.write("end")

    async def turn(self) -> None:
        """Take a lock, use it, give it back."""
        self._number = number = next(self._numbers)
        name = self.random.choice(self.job.names)
        kind, acquire, try_acquire = self._lock(name)
        timeout = self._patience()
        self.journal.write("ask", number=number, name=name, kind=kind, timeout=timeout)
        outcome, error = "done", ""
        try:
            if timeout == 0:
                lease = await self.face.done(try_acquire())
            else:
                lease = await self.face.done(acquire(timeout))
            if lease is None:
                outcome = "timeout"
            else:
                await self._hold(lease, writes=kind in ("lock", "write", "leader"))
        except LockTimeout:
            outcome = "timeout"
        except LeaseLost as lost:
            outcome, error = "lost", lost.reason
        except StaleFence as stale:
            outcome, error = "refused", str(stale.newest)
        except EngineError as failure:
            outcome, error = "error", type(failure).__name__
            await self.face.sleep(0.05)
        self.journal.write("over", number=number, outcome=outcome, error=error)

    def _lock(self, name: str) -> tuple[str, Callable[..., Any], Callable[..., Any]]:
        """How this turn wants to hold, and the two ways to ask for it."""
        client, guard = self.face.client, self.face.barrier(self)
        match self.job.primitive:
            case "semaphore":
                lock, kind = client.semaphore(name, self.job.permits), "permit"
            case "rwlock" if self.random.random() < 0.7:
                lock, kind = client.rwlock(name).read(), "read"
            case "rwlock":
                lock, kind = client.rwlock(name, guard=guard).write(), "write"
            case "election":
                election = client.election(name, self.job.worker)
                return "leader", election.campaign, lambda: election.campaign(0)
            case _:
                lock, kind = client.lock(name, guard=guard), "lock"
        return kind, lock.acquire, lock.try_acquire

    def _patience(self) -> float:
        """How long to wait: mostly until it has its turn, seldom not at all."""
        draw = self.random.random()
        if draw < 0.1:
            return 0.0
        return self.job.ttl * (0.5 if draw < 0.2 else 20.0)

    async def _hold(self, lease: Any, *, writes: bool) -> None:
        at = now()
        try:
            lease.check()
            self._sure = at
            facts = {"fence": lease.fence, "abandoned": lease.abandoned, "holder": holder_of(lease)}
            self.journal.write("held", at, number=self._number, **facts)
            if writes:
                await self._add_one(lease)
            else:
                await self._think(lease, careful=True)
            self._prove(lease)
        finally:
            self.journal.write("release", number=self._number, sure=self._sure)
            await self.face.done(lease.release())

    def _prove(self, lease: Any) -> None:
        """`LeaseLost` if the lease is not held any more. Else it was held until this moment."""
        at = now()
        lease.check()
        self._sure = at

    async def _add_one(self, lease: Any) -> None:
        """Read, think, write. Half of the turns are careless: they don't look at the lease in between."""
        name, careful = lease.name, self.random.random() < 0.5
        if self.job.primitive == "election":  # it takes no guard
            await self.raise_fence(lease)
        value = await self.store(self.register.read, name)
        bare = await self.store(self.register.read_bare, name) if self.job.bare else None
        await self._think(lease, careful)
        if careful:
            self._prove(lease)
        stamp = RemoteLease(name, lease.fence, holder_of(lease))
        late = self.orders.take_late()
        if late:
            # As if the network kept this packet: the writer has gone on, and does not know.
            words = (late, self._number, stamp, value, bare)
            courier = threading.Thread(target=self._deliver, args=words, daemon=True)
            self._couriers.append(courier)
            self.journal.write("send late", number=self._number, until=now() + late)
            courier.start()
            return
        await self.store(self._write, self._number, stamp, value, bare)

    async def _think(self, lease: Any, careful: bool) -> None:
        """Work that takes some time: mostly little, seldom longer than the ttl, so that it is renewed."""
        draw, ttl = self.random.random(), self.job.ttl
        longest = 1.6 * ttl if draw < 0.05 else 0.3 * ttl if draw < 0.4 else 0.02
        left = self.random.random() * longest
        while left > 0:
            step = min(left, CHECK_EVERY)
            await self.face.sleep(step)
            left -= step
            if careful:
                before = self._sure
                self._prove(lease)
                if int(before / 0.2) != int(self._sure / 0.2):  # not every proof is worth a line
                    self.journal.write("sure", self._sure, number=self._number)

    # --- the storage

    async def store(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Use the storage. The journal tells the judge that a transaction may be open."""
        self.journal.write("store")
        try:
            return await self.face.call(function, *arguments)
        finally:
            self.journal.write("stored")

    async def raise_fence(self, lease: LeaseLike) -> None:
        """The read barrier of the guard."""
        await self.store(self.register.guard.raise_fence, lease)

    def _deliver(
        self, late: float, number: int, stamp: RemoteLease, value: int, bare: int | None
    ) -> None:
        threading.Event().wait(late)
        self._write(number, stamp, value, bare, late=True)
        self.register.close()

    def _write(
        self, number: int, stamp: RemoteLease, value: int, bare: int | None, late: bool = False
    ) -> None:
        facts: dict[str, Any] = {"number": number, "name": stamp.name, "fence": stamp.fence}
        facts |= {"value": value + 1, "replaced": value, "late": late}
        if bare is not None:
            self.register.write_bare(stamp.name, bare + 1)
            self.journal.write("bare", name=stamp.name)
        try:
            self.register.write(stamp, value + 1, self.job.worker)
        except StaleFence as stale:
            self.journal.write("write", **facts, outcome="refused", newest=stale.newest)
        else:
            self.journal.write("write", **facts, outcome="accepted")

    # --- what the client tells

    def _observe(self, event: Event) -> None:
        if isinstance(event, EngineRequest):
            if event.operation != "park":
                since, ended = now() - event.seconds, event.outcome
                self.journal.write("request", since=since, operation=event.operation, outcome=ended)
        elif isinstance(event, Queued):
            self.journal.write("queued", number=self._number)

    _observe.prompt = True  # type: ignore[attr-defined]
    _observe.uses_no_lock = True  # type: ignore[attr-defined]


def main(kind: type[Worker] = Worker) -> None:
    """Do one job. Tests plant bugs in another kind of worker."""
    leave_ctrl_c_to_parent()
    job = Job(**json.loads(sys.stdin.readline()))
    if job.parent:
        die_with_parent(job.parent)
    try:
        worker = kind(job)
        if job.face == "sync":
            run(worker.work())
        else:
            asyncio.run(worker.work())
    except FencelockError as error:
        Journal(Path(job.journal)).write("failed", error=str(error))
        sys.exit(1)


if __name__ == "__main__":
    main()
