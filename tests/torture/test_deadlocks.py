"""Transactions in every order, by every policy: all finish, nobody is let in twice."""

from __future__ import annotations

import pytest

from fencelock.core.deadlock import POLICIES
from fencelock.core.ticket import Inspection
from fencelock.primitives.transaction import AsyncTransaction
from fencelock.torture.deadlocks import main, run_many
from tests.effort import effort


@pytest.mark.parametrize("policy", POLICIES)
def test_all_come_to_an_end(policy: str) -> None:
    results = run_many(policy, range(effort(30, 300)))
    assert [result.violations for result in results if result.violations] == []
    assert all(result.finished == 8 for result in results)
    if policy != "ordered":
        assert sum(result.given_way for result in results) > 0, "else it proves nothing"


@pytest.mark.parametrize("seed", [385, 467])
def test_a_wound_that_nobody_heard_is_noticed_at_the_renewal(seed: int) -> None:
    """Two transactions wound a third at once: one takes its bell away, the other holds it instead."""
    (result,) = run_many("wound-wait", range(seed, seed + 1))
    assert result.violations == []


def holders_only(transaction: AsyncTransaction) -> None:
    """A textbook mistake: compare with the holders only, not with the waiters ahead."""
    policy = transaction._policy
    inspect = policy._inspect

    async def only(name: str) -> Inspection:
        return (await inspect(name))._replace(waiters=())

    policy._inspect = only  # type: ignore[method-assign]


def test_comparing_with_the_holder_only_hangs() -> None:
    results = run_many("wait-die", range(30), holders_only)
    hung = [result for result in results if result.finished < 8]
    assert hung
    assert "never finished" in hung[0].violations[0]


def test_the_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--seeds", "0-1", "--policy", "wait-die", "--policy", "ordered"]) == 0
    first, second = capsys.readouterr().out.splitlines()
    assert "wait-die: 2 runs, 0 with violations" in first
    assert "ordered: 2 runs, 0 with violations" in second
