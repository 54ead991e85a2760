"""The fenced Redlock in random schedules of faults, with checkers that look for violations.

python -m fencelock.torture.redlock.simulate --seeds 0-29999
python -m fencelock.torture.redlock.simulate --seed 42 --trace
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from fencelock.torture.redlock.contender import Contender, Win
from fencelock.torture.redlock.world import World


@dataclass(frozen=True)
class Schedule:
    """What happened in one schedule."""

    seed: int
    world: World
    wins: list[Win]

    @property
    def violations(self) -> list[str]:
        """A sentence for each violation. It begins with the checker's name."""
        return [f"{checker.__name__}: {what}" for checker in CHECKERS for what in checker(self)]

    def report(self) -> str:
        """All violations, the end of the trace, and the command that shows the rest."""
        replay = f"python -m fencelock.torture.redlock.simulate --seed {self.seed} --trace"
        return "\n".join([f"seed {self.seed}:", *self.violations, *self.world.trace[-40:], replay])


def no_fence_twice(schedule: Schedule) -> Iterator[str]:
    """No two tickets ever get the same fence."""
    holders: dict[int, str] = {}
    for win in schedule.wins:
        if holders.setdefault(win.fence, win.id) != win.id:
            yield f"{holders[win.fence]} and {win.id} were both given {win.fence}"


def no_fence_falls(schedule: Schedule) -> Iterator[str]:
    """A bid that begins after a fence was announced wins with a higher one."""
    for win in schedule.wins:
        if win.fence <= win.began_after:
            yield f"{win.id} won with {win.fence}, but {win.began_after} was announced before it began"


def one_holder(schedule: Schedule) -> Iterator[str]:
    """No two leases are valid at once, as long as no ttl fires before its time."""
    if schedule.world.wild:
        return
    last: Win | None = None
    for win in schedule.wins:
        if last is not None and win.announced < last.until:
            yield f"{win.id} held {last.until - win.announced:.2f} ms before {last.id} was over"
        if last is None or win.until > last.until:
            last = win


def a_ticket_keeps_its_fence(schedule: Schedule) -> Iterator[str]:
    """A holder that enters again gets the fence that it has."""
    for win in schedule.wins:
        if not win.kept_fence:
            yield f"{win.id} entered again and was given another fence than {win.fence}"


def no_crash_is_hidden(schedule: Schedule) -> Iterator[str]:
    """A ticket that follows a holder that never released is told, unless a node has lost that."""
    if schedule.world.counts["losses of data"] or schedule.world.counts["traces dropped"]:
        return
    for win in schedule.wins:
        before = schedule.wins[: win.predecessor]
        last = max(before, key=lambda other: other.fence, default=None)
        between = [
            other for other in schedule.wins if last and last.fence < other.fence < win.fence
        ]
        if last and not last.released and not between and not win.abandoned:
            yield f"{win.id} was not told that {last.id} never released"


CHECKERS: tuple[Callable[[Schedule], Iterator[str]], ...] = (
    no_fence_twice, no_fence_falls, one_holder, a_ticket_keeps_its_fence, no_crash_is_hidden,
)  # fmt: skip


def simulate(
    seed: int, *, world: type[World] = World, contender: type[Contender] = Contender
) -> Schedule:
    """Run one schedule."""
    schedule = Schedule(seed, world(seed), [])
    for number in range(schedule.world.random.choice((2, 3, 5))):
        contender(schedule.world, number, schedule.wins)
    schedule.world.run()
    return schedule


def main(arguments: list[str] | None = None) -> int:
    """The command line: one schedule with its trace, or many with a summary."""
    parser = argparse.ArgumentParser(
        prog="python -m fencelock.torture.redlock.simulate",
        description="Run the fenced Redlock through seeded schedules of faults.",
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
    bad, started = 0, time.perf_counter()
    for seed in seeds:
        schedule = simulate(seed)
        counts += schedule.world.counts
        if options.trace:
            print("\n".join(schedule.world.trace))
        if schedule.violations:
            bad += 1
            print(schedule.report())
    elapsed = time.perf_counter() - started
    print(f"{len(seeds)} schedules in {elapsed:.1f} s, {bad} with violations")
    for what, count in sorted(counts.items()):
        print(f"  {count:>9,} {what}")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
