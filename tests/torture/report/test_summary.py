"""The summary in the terminal: one screen, whatever the run was."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from rich.cells import cell_len

from fencelock.torture.report.summary import shortest, summary
from tests.torture.report import histories
from tests.torture.report.histories import ALL, Record


@pytest.mark.parametrize("make", [each for each in ALL if each is not histories.huge])
@pytest.mark.parametrize("width", [80, 40])
def test_one_screen(make: Callable[[], list[Record]], width: int) -> None:
    lines = summary(make(), width)
    assert 10 < len(lines) <= 24
    assert max(map(cell_len, lines)) <= width
    assert all(line.isprintable() for line in lines)


def test_what_it_says() -> None:
    held = "\n".join(summary(histories.held()))
    assert held.startswith(
        "HELD: No update was lost, and no stale holder wrote.\nredis://127.0.0.1"
    )
    assert "held  Fences only grow" in held
    assert "engine restarted               1       1       1        1" in held
    assert "3.20 s, 9.50 s allowed" in held
    lines = summary(histories.broken())
    text = "\n".join(lines)
    assert lines[0] == "BROKEN: The storage accepted the write of a stale holder."
    assert "BROKEN  A stale holder can't write" in text
    assert "    44.350 s  w1.1      accepted write of 511 with fence" in text
    assert "(the shortest of 2 violations)" in " ".join(text.split())
    assert "hunter2" not in "\n".join(summary(histories.hostile()))


def test_too_much_for_one_screen_is_counted() -> None:
    records = histories.broken()
    verdict = records[-1]
    verdict["faults"] = {f"kind {n}": {"title": f"kind {n}", "times": n} for n in range(30)}
    lines = summary(records)
    assert len(lines) == 24
    shown = sum(line.startswith("kind ") for line in lines)
    assert shown > 0
    assert f"… and {30 - shown} more in the report" in lines


def test_a_run_that_was_cut_short() -> None:
    assert summary([]) == ["NO VERDICT: The run was cut short: its history ends without a verdict."]
    (run, *_) = histories.held()
    assert (
        summary([run])[1] == "redis://127.0.0.1:6379, lock, ttl 2 s, 60 s, seed 1, fencelock 0.1.0"
    )


def test_the_shortest_counterexample() -> None:
    one, two = {"at": 1.0}, {"at": 2.0}
    long, short = {"events": [one, two, two]}, {"events": [one, two]}
    shorter = {"events": [one, one]}
    assert shortest([long, short, shorter]) is shorter
    assert shortest([{}, long]) is long
    assert shortest([]) is None
