"""The distributions: what they say about themselves is what they draw."""

from __future__ import annotations

import math
from random import Random
from statistics import fmean

import pytest

from fencelock.planning.held import Exponential, Fixed, Held, Lognormal, Longer, held_for

DRAWS = 20_000
ALL = [Fixed(2.0), Exponential(2.0), Lognormal(2.0, 7.0), Longer(Exponential(1.5), 0.5)]


@pytest.mark.parametrize("held", ALL, ids=str)
def test_figures_are_those_of_the_draws(held: Held) -> None:
    random = Random(1)
    drawn = sorted(held.draw(random) for _ in range(DRAWS))
    assert fmean(drawn) == pytest.approx(held.mean, rel=0.03)
    assert fmean(one * one for one in drawn) == pytest.approx(held.square, rel=0.08)
    assert drawn[int(DRAWS * 0.99)] == pytest.approx(held.p99, rel=0.06)
    for until in (0.3, 1.0, 3.0):
        assert held.area(until) == pytest.approx(fmean(min(one, until) for one in drawn), rel=0.03)
    assert held.area(1000.0) == pytest.approx(held.mean)
    assert held.area(0.0) == 0.0


def test_the_distribution_follows_from_what_is_known() -> None:
    assert held_for(2.0, None) == Exponential(2.0)
    assert held_for(2.0, 2.0) == Fixed(2.0)
    assert held_for(2.0, 7.0) == Lognormal(2.0, 7.0)


@pytest.mark.parametrize("p99", [1.9, 20.1, math.inf])
def test_an_impossible_p99_is_refused(p99: float) -> None:
    with pytest.raises(ValueError, match="must be 1 to 10 times its mean, not"):
        held_for(2.0, p99)
