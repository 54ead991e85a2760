"""Transactions that take the same names in different orders: do all of them finish?

`python -m fencelock.torture.deadlocks --seeds 0-999` runs every policy, and says how often a transaction had
to give way. All transactions of a run have the same policy. The network is sometimes slow and loses nothing.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from fencelock.core.deadlock import POLICIES
from fencelock.core.ticket import Owner
from fencelock.io.simulated import START, SimulatedIO, World
from fencelock.primitives.context import Context
from fencelock.primitives.contexts import Contexts
from fencelock.primitives.lock import AsyncLock
from fencelock.primitives.options import LockOptions
from fencelock.primitives.transaction import AsyncTransaction
from fencelock.torture.network import Faults, FaultyEngine, Network, Server

TRANSACTIONS, NAMES = 8, 6
TTL = 5.0
HORIZON = 300.0
"""The longest run in virtual seconds. All transactions together need far less."""

Change = Callable[[AsyncTransaction], None]


@dataclass
class DeadlockResult:
    """How one run ended."""

    seed: int
    policy: str
    finished: int = 0
    given_way: int = 0
    seconds: float = 0.0
    """When the last transaction finished."""
    violations: list[str] = field(default_factory=list)


class Deadlocks:
    """One simulated world with transactions that block one another."""

    def __init__(self, seed: int, policy: str, change: Change | None = None) -> None:
        self.result = DeadlockResult(seed, policy)
        self.world = World(seed, max_steps=2_000_000)
        self.random = self.world.random
        self.network = Network(self.world, Server(self.world))
        self.network.faults = Faults(
            delay=self.random.choice((0.0005, 0.005)), late=0.05, lateness=0.1
        )
        self._change = change
        self._inside: dict[str, str] = {}

    def run(self) -> DeadlockResult:
        """Run until nothing happens any more."""
        for number in range(TRANSACTIONS):
            io = self.world.process(f"p{number}")
            context = Context(FaultyEngine(self.network, io), io)
            io.spawn(self._live(io, context, number), f"transaction {number}")
        self.world.run(until=START + HORIZON)
        problems = self.result.violations
        problems += [f"{task!r} died of {error!r}" for task, error in self.world.failures]
        if self.result.finished < TRANSACTIONS:
            problems.append(f"{TRANSACTIONS - self.result.finished} never finished")
        self.world.close()
        return self.result

    async def _live(self, io: SimulatedIO, context: Context, number: int) -> None:
        await io.sleep(self.random.random() * 0.05)
        wanted = self.random.sample(range(NAMES), self.random.randint(2, 4))
        if self.result.policy == "ordered":
            wanted.sort()

        contexts = Contexts(lambda: context)

        def make(name: str, data: str) -> AsyncLock:
            owner = Owner(io.name, number, f"t{number}", data)
            return AsyncLock(contexts, name, LockOptions(owner, TTL))

        transaction = AsyncTransaction(
            contexts, make, policy=self.result.policy, timeout=None, attempts=100_000, patience=0.05
        )
        if self._change is not None:
            self._change(transaction)

        async def work(transaction: AsyncTransaction) -> None:
            mine: list[str] = []
            try:
                for name in (f"n{number}" for number in wanted):
                    await transaction.lock(name)
                    if name in self._inside:
                        both = f"{io.name} and {self._inside[name]}"
                        self.result.violations.append(f"{name}: {both}")
                    self._inside[name] = io.name
                    mine.append(name)
                    await io.sleep(self.random.random() * 0.02)
            finally:
                for name in mine:
                    del self._inside[name]

        await transaction.run(work)
        self.result.given_way += transaction.attempts - 1
        self.result.finished += 1
        self.result.seconds = self.world.time - START
        await context.close()


def run_many(policy: str, seeds: range, change: Change | None = None) -> list[DeadlockResult]:
    """Run all seeds with one policy."""
    return [Deadlocks(seed, policy, change).run() for seed in seeds]


def summary(results: list[DeadlockResult]) -> str:
    """One line about many runs."""
    bad = [result for result in results if result.violations]
    given_way = sum(result.given_way for result in results) / len(results)
    mean = sum(result.seconds for result in results) / len(results)
    return (
        f"{results[0].policy:>10}: {len(results)} runs, {len(bad)} with violations, "
        f"{given_way:.1f} transactions a run gave way, the last one finished after {mean:.2f} s"
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
        results = run_many(policy, range(int(first), int(last or first) + 1))
        print(summary(results))
        for result in [result for result in results if result.violations][:3]:
            failed += 1
            print(f"  seed {result.seed}: {'; '.join(result.violations[:3])}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
