"""The real lock code, run through thousands of bad schedules; the checkers are design rule 7.

A failing seed prints how to replay it. FENCELOCK_FIRST_SEED moves to schedules nobody has seen yet.
"""

from __future__ import annotations

import os
from collections import Counter

import pytest

from fencelock.torture.simulate import main, simulate

FIRST_SEED = int(os.environ.get("FENCELOCK_FIRST_SEED", "0"))
PER_BLOCK = 128
BLOCKS = 2  # 256 schedules; `./soak` has fresh ones for as long as one likes

HAPPENED = (
    "attempts cancelled",
    "attempts lost",
    "attempts refused",
    "attempts timed out",
    "clients closed",
    "crashes",
    "leases lost",
    "locks broken",
    "messages late",
    "partitions",
    "pauses",
    "pushes lost",
    "replies lost",
    "requests duplicated",
    "requests lost",
    "restarts",
    "restarts that wiped",
    "stale fences refused",
)


@pytest.mark.parametrize(
    "block", [0, *(pytest.param(block, marks=pytest.mark.slow) for block in range(1, BLOCKS))]
)
def test_the_invariants_hold_in_every_schedule(block: int) -> None:
    counts: Counter[str] = Counter()
    first = FIRST_SEED + block * PER_BLOCK
    for seed in range(first, first + PER_BLOCK):
        result = simulate(seed)
        assert not result.violations, result.report()
        counts += result.counts
    # Schedules in which nothing goes wrong would prove nothing.
    missing = [what for what in HAPPENED if not counts[what]]
    assert not missing, f"these faults never occurred: {missing}"
    assert counts["grants"] > 10 * PER_BLOCK


def test_a_seed_replays_exactly() -> None:
    assert simulate(7).trace == simulate(7).trace
    assert simulate(7).trace != simulate(8).trace


def test_one_seed_on_the_command_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--seed", "3", "--trace"]) == 0
    shown = capsys.readouterr().out
    assert all(line in shown for line in simulate(3).trace)
    assert "1 schedules" in shown


def test_many_seeds_on_the_command_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--seeds", "0-4"]) == 0
    shown = capsys.readouterr().out
    assert "5 schedules" in shown
    assert "grants" in shown


def test_a_range_that_is_none_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--seeds", "some"])
    assert "--seeds needs two numbers" in capsys.readouterr().err


def test_a_failing_seed_says_how_to_replay_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def objection(*_: object) -> list[str]:
        return ["fences_grow: they did not"]

    monkeypatch.setattr("fencelock.torture.simulate.violations", objection)
    assert main(["--seeds", "5-5"]) == 1
    shown = capsys.readouterr().out
    assert "fences_grow: they did not" in shown
    assert "python -m fencelock.torture.simulate --seed 5 --trace" in shown
    assert simulate(5).trace[-1] in shown
