"""Seeded simulation: a world with faults of every kind, run to its end and checked.

`python -m fencelock.torture.simulate --seeds 0-999` runs many schedules and prints a summary.
`python -m fencelock.torture.simulate --seed 42 --trace` runs one of them again, exactly.
"""

from __future__ import annotations

import argparse
import logging
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from fencelock.io.simulated import START, World
from fencelock.observe.audience import Audience
from fencelock.primitives.context import Context
from fencelock.primitives.sweeper import REQUEST_TIMEOUT
from fencelock.torture.checkers import violations
from fencelock.torture.history import History
from fencelock.torture.network import CALM, Faults, FaultyEngine, Network, Server
from fencelock.torture.storage import GuardedCounters
from fencelock.torture.workers import TTLS, SimulatedClient, Worker

HORIZON = 600.0
"""The virtual seconds within which a run must end."""


@dataclass(frozen=True)
class SimulationResult:
    """How one run ended."""

    seed: int
    violations: list[str]
    counts: Counter[str]
    world: World
    module: str = "fencelock.torture.simulate"
    """The command that repeats it."""

    @property
    def trace(self) -> list[str]:
        """Everything that happened, one line each."""
        return self.world.tail()

    def report(self, lines: int = 40) -> str:
        """The violations, the command that repeats the run, and the end of its trace."""
        return "\n".join(
            [
                f"seed {self.seed}: {len(self.violations)} violations",
                *(f"  {violation}" for violation in self.violations[:10]),
                f"replay: python -m {self.module} --seed {self.seed} --trace",
                *([f"the last {lines} lines of its trace:"] if lines else []),
                *(self.trace[-lines:] if lines else []),
            ]
        )


class Simulation:
    """One world, made from a seed. A subclass can plant a bug with another context or worker."""

    module = "fencelock.torture.simulate"
    context: type[Context] = Context
    worker: type[Worker] = Worker

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.world = World(seed)
        self.random = self.world.random
        self.server = Server(self.world)
        self.network = Network(self.world, self.server)
        self.names = [f"n{number}" for number in range(self.random.choice((1, 1, 2, 3)))]
        self.history = History(self.world, self.server, self.names)
        self.counters = GuardedCounters(
            self.world, delay=0.002, late=self._sometimes(0.3), lateness=2.0
        )
        self.clients = [self._client(number) for number in range(self.random.randint(2, 6))]

    def run(self) -> SimulationResult:
        """Run to the end and check the invariants."""
        world, history = self.world, self.history
        self._plan_faults()
        for client in self.clients:
            client.io.spawn(self._live(client), f"main of {client.io.name}")
        problems: list[str] = []
        with _logging_to(world):
            try:
                world.run(until=START + HORIZON)
            except Exception as error:  # a livelock, or the server's own failure
                problems.append(f"failure: {type(error).__name__}: {error}")
            history.ended_at = world.time
            problems += [f"failure: {task!r} died of {error!r}" for task, error in world.failures]
            if not problems:
                self._look_for_leftovers()
                problems += violations(history, self.counters)
            world.close()
        counts = history.counts + self.network.counts
        return SimulationResult(self.seed, problems, counts, world, self.module)

    # --- the processes

    def _client(self, number: int) -> SimulatedClient:
        io = self.world.process(f"p{number}")
        engine = FaultyEngine(self.network, io)
        # Half of all runs are observed, so the code is tested with observers and without.
        observers = [self.history.observer(io)] if self.seed % 2 == 0 else []
        return SimulatedClient(io, engine, self.context(engine, io, Audience(observers)))

    async def _live(self, client: SimulatedClient) -> None:
        """The main program of a process: it runs its workers, then perhaps closes its client."""
        random, history = self.random, self.history
        count = random.choice((1, 1, 2))
        workers = [self.worker(number, client, history, self.counters) for number in range(count)]
        tasks = [client.io.spawn(worker.run(2), f"worker {worker.number}") for worker in workers]
        for task in tasks:
            await task.join()
        if random.random() < 0.5:
            await self._end(client)

    async def _end(self, client: SimulatedClient) -> None:
        self.world.log(client.io.name, "closes")
        await client.context.close()
        self.history.counts["clients closed"] += 1
        self.history.closed.setdefault(client.io.name, self.world.time)

    # --- the faults

    def _sometimes(self, most: float) -> float:
        """A probability for this run. It is often 0, so that some runs have only one kind of fault."""
        return self.random.choice((0.0, 0.2, 1.0)) * most

    def _plan_faults(self) -> None:
        random, world, history = self.random, self.world, self.history
        faults = Faults(
            delay=random.choice((0.0005, 0.002, 0.02)),
            lost_requests=self._sometimes(0.2),
            lost_replies=self._sometimes(0.2),
            duplicates=self._sometimes(0.2),
            late=self._sometimes(0.15),
            lateness=random.choice((0.5, 2.5)),
            lost_pushes=self._sometimes(0.5),
        )
        history.calm_at = world.time + random.uniform(2.0, 8.0)
        history.settled_at = history.calm_at + faults.lateness + REQUEST_TIMEOUT + 0.5
        self.network.faults = faults
        plans = (
            self._pause, self._partition, self._restart, self._crash, self._break, self._close,
        )  # fmt: skip
        for plan in plans:
            for _ in range(random.choice((0, 0, 1, 3))):
                world.at(random.uniform(world.time, history.calm_at), plan)
        world.at(history.calm_at, self._calm)

    def _calm(self) -> None:
        self.network.faults = CALM
        self.counters.calm()
        self.world.log("world", "the faults have stopped")

    def _until_calm(self, seconds: float) -> float:
        return min(seconds, self.history.calm_at - self.world.time)

    def _pause(self) -> None:
        io = self.random.choice(self.clients).io
        if not io.crashed:
            self.history.pause(io, self.random.random() * self.random.choice(TTLS) * 2)

    def _partition(self) -> None:
        client = self.random.choice(self.clients)
        seconds = self._until_calm(self.random.random() * 5.0)
        self.network.cut_off.add(client.io.name)
        self.history.counts["partitions"] += 1
        self.world.log(client.io.name, f"is cut off for {seconds:.2f} s")
        self.world.after(seconds, lambda: self.network.cut_off.discard(client.io.name))
        if self.random.random() < 0.5:
            client.engine.disconnect()

    def _restart(self) -> None:
        if not self.server.up:
            return
        wiped = self.random.random() < 0.5
        seconds = self._until_calm(self.random.random() * 3.0)
        self.history.counts["restarts that wiped" if wiped else "restarts"] += 1
        self.world.log("server", f"restarts for {seconds:.2f} s, {'wiped' if wiped else 'intact'}")
        self.server.stop()
        self.world.after(seconds, lambda: self.server.start(self.names, wiped=wiped))
        for client in self.clients:
            if self.random.random() < 0.7:
                client.engine.disconnect()

    def _crash(self) -> None:
        alive = [client for client in self.clients if not client.io.crashed]
        if len(alive) > 1 and self.random.random() < 0.5:
            client = self.random.choice(alive)
            client.io.crash()
            self.history.crashed(client.io)

    def _break(self) -> None:
        if self.server.up and self.random.random() < 0.5:
            name = self.random.choice(self.names)
            if self.server.evict(name):
                self.history.counts["locks broken"] += 1
                self.world.log("server", f"{name} was broken")

    def _close(self) -> None:
        """Close a client while its workers use it."""
        client = self.random.choice(self.clients)
        if not client.io.crashed and self.random.random() < 0.3:
            client.io.spawn(self._end(client), "closing")

    # --- the end

    def _look_for_leftovers(self) -> None:
        leftovers = self.history.leftovers
        for client in self.clients:
            if client.io.crashed:
                continue
            name, context = client.io.name, client.context
            leftovers += [f"the task {task!r} is left" for task in client.io.tasks]
            if not context.idle or (context.sweeper and not context.closing):
                leftovers.append(f"{name} still holds or renews something")
            if client.engine.parked:
                leftovers.append(f"{name} still has {len(client.engine.parked)} parked tickets")


@contextmanager
def _logging_to(world: World) -> Iterator[None]:
    """Write the library's warnings into the trace, not to the terminal."""

    class Handler(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            who = "" if world.current is None else world.current.io.name
            world.log(who, f"warning: {record.getMessage()}")

    log, handler = logging.getLogger("fencelock"), Handler()
    propagate, log.propagate = log.propagate, False
    log.addHandler(handler)
    try:
        yield
    finally:
        log.removeHandler(handler)
        log.propagate = propagate


def simulate(seed: int) -> SimulationResult:
    """Run one seed."""
    return Simulation(seed).run()


def main(arguments: list[str] | None = None, kind: type[Simulation] = Simulation) -> int:
    """The command line: one seed with its trace, or many with a summary."""
    parser = argparse.ArgumentParser(
        prog=f"python -m {kind.module}",
        description="Run the locks through seeded schedules of faults.",
    )
    which = parser.add_mutually_exclusive_group(required=True)
    which.add_argument("--seed", type=int, help="run this one schedule")
    which.add_argument("--seeds", metavar="FIRST-LAST", help="run all of these")
    parser.add_argument("--trace", action="store_true", help="show everything that happened")
    options = parser.parse_args(arguments)
    first, _, last = (options.seeds or str(options.seed)).partition("-")
    try:
        seeds = range(int(first), int(last or first) + 1)
    except ValueError:
        parser.error("--seeds needs two numbers, e.g. 0-999")

    counts: Counter[str] = Counter()
    bad, steps = 0, 0
    started = time.perf_counter()
    for seed in seeds:
        result = kind(seed).run()
        counts += result.counts
        steps += result.world.steps
        if options.trace:
            print("\n".join(result.trace))
        if result.violations:
            bad += 1
            print(result.report(0 if options.trace else 40))
    elapsed = time.perf_counter() - started
    print(
        f"{len(seeds)} schedules, {steps} steps in {elapsed:.1f} s "
        f"({len(seeds) / elapsed:.0f} schedules/s), {bad} with violations"
    )
    for what, count in sorted(counts.items()):
        print(f"  {count:>9,} {what}")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
