"""Leases that end by themselves, in seeded schedules of faults; and bugs that the checkers must find."""

from __future__ import annotations

from collections import Counter

import pytest

from fencelock.primitives.bounded import BoundedClaim
from fencelock.primitives.claim import Claim
from fencelock.torture.bounded import BoundedSimulation
from tests.effort import effort


def test_the_invariants_hold_in_every_schedule() -> None:
    counts: Counter[str] = Counter()
    for seed in range(effort(20, 200)):
        result = BoundedSimulation(seed).run()
        assert not result.violations, result.report()
        counts += result.counts
    assert counts["leases lost"] > counts["grants"] / 10, "many leases end by themselves"


def objections(seeds: int = 50) -> set[str]:
    found: set[str] = set()
    for seed in range(seeds):
        found |= {each.partition(":")[0] for each in BoundedSimulation(seed).run().violations}
        if found:
            break
    return found


def test_renewals_that_forget_the_bound_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(BoundedClaim, "answered", Claim.answered)
    assert "bounds_are_kept" in objections()


def test_an_end_that_nobody_waits_for_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(BoundedClaim, "final", False)
    assert objections() & {"loss_is_noticed", "bounds_are_kept"}
