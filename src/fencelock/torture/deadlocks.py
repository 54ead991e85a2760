"""Transactions that take the same names in every order: do all of them come to an end?

Run `python -m fencelock.torture.deadlocks --seeds 0-999` for every policy, with how often somebody had to
give way. Everyone keeps to one policy in a run; the network is slow now and then, but loses nothing.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from fencelock.core.deadlock import POLICIES
from fencelock.core.ticket import Owner
from fencelock.io.simulated import START, SimulatedIO, SimulatedTask, World
from fencelock.primitives.keeper import Keeper
from fencelock.primitives.lock import AsyncLock
from fencelock.primitives.options import LockOptions
from fencelock.primitives.transaction import AsyncTransaction
from fencelock.torture.network import Faults, FaultyEngine, Network, Server

TRANSACTIONS, NAMES = 8, 6
TTL = 5.0
HORIZON = 300.0
"""Virtual seconds, far more than all of them need."""

Change = Callable[[AsyncTransaction], None]


@dataclass
class Verdict:
    """How one run ended."""

    seed: int
    policy: str
    finished: int
    given_way: int
    seconds: float
    violations: list[str]


class Deadlocks:
    """One world in which transactions get into each other's way."""

    def __init__(self, seed: int, policy: str, change: Change | None = None) -> None:
        self.seed = seed
        self.policy = policy
        self.world = World(seed, max_steps=2_000_000)
        self.random = self.world.random
        self.network = Network(self.world, Server(self.world))
        self.network.faults = Faults(
            delay=self.random.choice((0.0005, 0.005)), late=0.05, lateness=0.1
        )
        self._change = change
        self._inside: dict[str, str] = {}
        self._violations: list[str] = []
        self._given_way = 0
        self._finished = 0
        self._ended = START

    def run(self) -> Verdict:
        """Run it until nothing happens any more."""
        tasks = [self._start(number) for number in range(TRANSACTIONS)]
        self.world.run(until=START + HORIZON)
        self._violations += [f"{task!r} died of {error!r}" for task, error in self.world.failures]
        if self._finished < len(tasks):
            self._violations.append(f"{len(tasks) - self._finished} never came to an end")
        self.world.close()
        return Verdict(
            self.seed,
            self.policy,
            self._finished,
            self._given_way,
            self._ended - START,
            self._violations,
        )

    def _start(self, number: int) -> SimulatedTask:
        io = self.world.process(f"p{number}")
        engine = FaultyEngine(self.network, io)
        return io.spawn(self._live(io, Keeper(engine, io), number), f"transaction {number}")

    async def _live(self, io: SimulatedIO, keeper: Keeper, number: int) -> None:
        await io.sleep(self.random.random() * 0.05)
        wanted = self.random.sample(range(NAMES), self.random.randint(2, 4))
        if self.policy == "ordered":
            wanted.sort()

        def make(name: str, note: str) -> AsyncLock:
            owner = Owner(io.name, number, f"t{number}", note)
            return AsyncLock(keeper, name, LockOptions(owner, TTL))

        transaction = AsyncTransaction(
            keeper, make, policy=self.policy, timeout=None, attempts=100_000, patience=0.05
        )
        if self._change is not None:
            self._change(transaction)

        async def work(transaction: AsyncTransaction) -> None:
            mine: list[str] = []
            try:
                for name in (f"n{number}" for number in wanted):
                    await transaction.lock(name)
                    if name in self._inside:
                        self._violations.append(f"{name}: {io.name} and {self._inside[name]}")
                    self._inside[name] = io.name
                    mine.append(name)
                    await io.sleep(self.random.random() * 0.02)
            finally:
                for name in mine:
                    del self._inside[name]

        await transaction.run(work)
        self._given_way += transaction.attempts - 1
        self._finished += 1
        self._ended = self.world.time
        await keeper.close()


def run_many(policy: str, seeds: range, change: Change | None = None) -> list[Verdict]:
    """All schedules of one policy."""
    return [Deadlocks(seed, policy, change).run() for seed in seeds]


def summary(verdicts: list[Verdict]) -> str:
    """One line about many runs."""
    bad = [verdict for verdict in verdicts if verdict.violations]
    way = sum(verdict.given_way for verdict in verdicts) / len(verdicts)
    mean = sum(verdict.seconds for verdict in verdicts) / len(verdicts)
    return (
        f"{verdicts[0].policy:>10}: {len(verdicts)} runs, {len(bad)} with violations, given way "
        f"{way:.1f} times a run, the last one was done after {mean:.2f} s"
    )


def main(arguments: list[str] | None = None) -> int:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m fencelock.torture.deadlocks")
    parser.add_argument("--seeds", metavar="FIRST-LAST", default="0-199")
    parser.add_argument("--policy", choices=POLICIES, action="append")
    options: Any = parser.parse_args(arguments)
    first, _, last = options.seeds.partition("-")
    failed = 0
    for policy in options.policy or POLICIES:
        verdicts = run_many(policy, range(int(first), int(last or first) + 1))
        print(summary(verdicts))
        for verdict in [verdict for verdict in verdicts if verdict.violations][:3]:
            failed += 1
            print(f"  seed {verdict.seed}: {'; '.join(verdict.violations[:3])}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
