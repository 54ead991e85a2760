"""The formulas, compared with the queue itself and with the cases that books solve exactly."""

from __future__ import annotations

import math
from collections.abc import Iterator
from random import Random
from statistics import fmean

import pytest

from fencelock.planning.held import Exponential, Fixed, Held, Lognormal, Longer
from fencelock.planning.queue import mean_wait, replay, wait_percentile

CALLERS = 25_000


def callers(per_second: float, served: Held) -> Iterator[tuple[float, float]]:
    random, moment = Random(3), 0.0
    for _ in range(CALLERS):
        moment += random.expovariate(per_second)
        yield moment, served.draw(random)


@pytest.mark.parametrize("busy", [0.05, 0.5, 0.8])
@pytest.mark.parametrize(
    "served",
    [Exponential(1.0), Fixed(1.0), Lognormal(1.0, 5.0), Longer(Exponential(0.7), 0.3)],
    ids=str,
)
def test_formulas_say_what_happens_to_many_callers(served: Held, busy: float) -> None:
    waits = sorted(replay(callers(busy, served)))
    assert mean_wait(busy, served) == pytest.approx(fmean(waits), rel=0.1)
    assert wait_percentile(busy, served) == pytest.approx(waits[int(0.99 * CALLERS)], rel=0.1)


@pytest.mark.parametrize("busy", [0.02, 0.2, 0.5, 0.8, 0.99])
def test_the_exact_solution_for_random_times(busy: float) -> None:
    served = Exponential(0.01)
    rate = busy / served.mean
    assert mean_wait(rate, served) == pytest.approx(busy / (1 - busy) * served.mean)
    exact = math.log(100 * busy) * served.mean / (1 - busy)
    assert wait_percentile(rate, served) == pytest.approx(exact, rel=0.02)


def test_a_fixed_time_halves_the_mean_wait() -> None:
    assert mean_wait(0.5, Fixed(1.0)) == mean_wait(0.5, Exponential(1.0)) / 2


@pytest.mark.parametrize("rate", [1.0, 1.5])
def test_too_many_callers_wait_without_end(rate: float) -> None:
    assert mean_wait(rate, Fixed(1.0)) == wait_percentile(rate, Fixed(1.0)) == math.inf


def test_if_99_of_100_find_it_free_the_p99_is_nothing() -> None:
    assert wait_percentile(0.009, Fixed(1.0)) == 0.0


def test_a_percentile_far_beyond_the_first_guess_is_found() -> None:
    """Service times so uneven that the mean says nothing about the few that wait."""
    rest = wait_percentile(0.05, Lognormal(1.0, 10.0), 0.9999)
    waits = sorted(replay(callers(0.05, Lognormal(1.0, 10.0))))
    assert rest > 50 > waits[int(0.99 * CALLERS)]


def test_a_replay_is_in_order_of_arrival() -> None:
    assert list(replay([(0.0, 2.0), (1.0, 2.0), (1.5, 1.0), (9.0, 1.0)])) == [0.0, 1.0, 2.5, 0.0]
