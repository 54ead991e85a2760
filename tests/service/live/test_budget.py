"""What pages may ask of the engine."""

from __future__ import annotations

from fencelock.service.live.budget import BURST, SHARE, Budget

WAY, EACH = 0.002, 0.00005
"""Seconds on the way to the engine and back, and seconds that the engine itself takes for a look."""


def look(budget: Budget, count: int) -> float:
    """Look at so many names together. Returns what the engine itself took."""
    budget.looked(count, WAY + count * EACH)
    return count * EACH


def test_in_the_long_run_the_engine_gives_its_share() -> None:
    budget, spent = Budget(0.0), 0.0
    look(budget, 1)
    for second in range(1, 1000):
        budget.fill(float(second))
        while budget.looks:
            spent += look(budget, min(16, budget.looks))
        while budget.may_list:
            budget.listed(WAY + 0.0004)
            spent += 0.0004
    most = SHARE * 1000 + 2 * BURST
    assert 0.8 * most < spent < 1.1 * most
    assert 0.8 * SHARE < budget.load < 1.3 * SHARE


def test_the_way_to_the_engine_costs_the_engine_nothing() -> None:
    near, far = Budget(0.0), Budget(0.0)
    for budget, way in ((near, 0.0001), (far, 0.1)):
        budget.looked(1, way + EACH)
        for _ in range(10):
            budget.looked(16, way + 16 * EACH)
    assert abs(near.looks - far.looks) < 0.01 * near.looks


def test_a_machine_that_stalls_does_not_make_the_engine_look_slow() -> None:
    budget = Budget(0.0)
    look(budget, 1)
    look(budget, 16)
    before = budget.looks
    budget.looked(16, 1.5)
    assert before - budget.looks < 100


def test_a_new_listing_leaves_something_for_a_long_one() -> None:
    budget = Budget(0.0)
    budget.looked(1, WAY)
    listings = 0
    while budget.may_list_again:
        budget.listed(WAY + 0.1)
        listings += 1
    assert budget.may_list
    assert listings in (5, 6)
