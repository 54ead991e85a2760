"""What broken variants of the fenced Redlock do, in as few steps as can be.

python -m tests.torture.redlock.counterexamples
"""

from __future__ import annotations

from fencelock.torture.redlock.explore import Explorer, Found
from tests.torture.redlock.planted import GrantsWithoutBump, OnePhase, RaisesForAnyone


class WithOnePhase(Explorer):
    """The highest fence of a majority, which no majority knows."""

    bid = OnePhase


class WithRaisesForAnyone(Explorer):
    """A raise counts as a vote, even if another ticket has the lock there."""

    node = type("Exact", (RaisesForAnyone,), {"leap": 0})


class WithoutBump(Explorer):
    """A free lock is handed out under the fence that the last one had."""

    node = type("Exact", (GrantsWithoutBump,), {"leap": 0})


class VotesAtOnce(Explorer):
    """A node that forgot votes as if it knew."""

    waits = learns = False


class WaitsOnly(Explorer):
    """A node that forgot waits, but does not learn the fences."""

    learns = False


class LearnsOnly(Explorer):
    """A node that forgot learns the fences, but does not wait."""

    waits = False


BROKEN = (WithOnePhase, WithRaisesForAnyone, WithoutBump, VotesAtOnce, WaitsOnly, LearnsOnly)


def find(broken: type[Explorer]) -> Found:
    """The shortest way to its harm, with one bid of each client."""
    losses = int(not (broken.waits and broken.learns))
    return broken((1, 1), losses=losses).run(limit=200_000)


if __name__ == "__main__":
    for broken in BROKEN:
        print(f"{broken.__doc__}\n{find(broken)}\n")
