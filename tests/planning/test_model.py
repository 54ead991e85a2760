"""From what is asked to what to expect."""

from __future__ import annotations

import math

import pytest

from fencelock.core.durations import suggest_ttl
from fencelock.planning.held import Exponential, Fixed
from fencelock.planning.model import FULL, EngineSpeed, Model, shortest_ttl
from fencelock.planning.names import Names

SPEED = EngineSpeed(pair=0.0004, pair_p99=0.002, hand_off=0.001, pairs_per_second=1000.0)


def model(names: int = 1, skew: float = 0.0, partitions: int = 1, held: float = 0.009) -> Model:
    return Model(Names(names, skew), Exponential(held), SPEED, partitions)


def test_a_hand_off_is_part_of_what_others_wait_for() -> None:
    unlimited = Model(Names(1), Fixed(0.009), SPEED._replace(pairs_per_second=math.inf))
    load = unlimited.at(50.0)
    assert load.busy == pytest.approx(0.5)
    assert load.mean_wait == pytest.approx(0.0002 + 0.01 * 0.5 / 2 / 0.5)
    assert load.waiting == pytest.approx(50.0 * load.mean_wait)
    assert load.held == pytest.approx(0.45)
    assert load.partition_busy is load.partitions_needed is None


def test_where_queues_grow_without_end() -> None:
    one = model()
    assert one.name_limit == pytest.approx(100.0)
    assert one.at(99.0).p99_wait < math.inf
    beyond = one.at(101.0)
    assert beyond.mean_wait == beyond.p99_wait == beyond.mean_wait_anywhere == math.inf
    assert beyond.names_without_end == 1
    assert beyond.held == pytest.approx(0.9)  # no more than one at a time, and not in a hand-off


def test_only_the_busiest_names_are_overloaded() -> None:
    load = model(names=1000, skew=1.0).at(800.0)
    assert load.busy > 1
    assert load.names_without_end == 1  # the second is wanted half as often


def test_an_engine_has_a_limit_whatever_the_names() -> None:
    many = model(names=100_000)
    assert many.engine_limit == pytest.approx(1000.0)
    assert many.limit == pytest.approx(1000.0, rel=0.01)
    assert many.at(900.0).mean_wait_anywhere > many.at(100.0).mean_wait_anywhere
    assert many.at(1001.0).mean_wait_anywhere == math.inf
    needed = many.at(5000.0).partitions_needed
    assert needed is not None
    assert 5000 / 1000 / FULL <= needed <= 10
    enough = model(names=100_000, partitions=needed).at(5000.0)
    assert enough.partition_busy is not None
    assert enough.partition_busy <= FULL
    short = model(names=100_000, partitions=needed - 1).at(5000.0)
    assert short.partition_busy is not None
    assert short.partition_busy > FULL


def test_requests_wait_for_one_another_at_a_busy_engine() -> None:
    everybody_alone = model(names=10**9)
    for used, delay in ((0.5, 0.0005), (0.9, 0.0045)):  # a request takes half a millisecond
        load = everybody_alone.at(1000.0 * used)
        assert load.mean_wait_anywhere == pytest.approx(SPEED.pair / 2 + delay, rel=0.01)


@pytest.mark.parametrize("names", [1, 10, 11, 1000])
def test_up_to_the_limit_every_queue_has_an_end(names: int) -> None:
    """Also where the name and the engine are busy at the same time."""
    mixed = model(names=names)
    assert mixed.limit <= min(mixed.name_limit, mixed.engine_limit)
    assert mixed.at(mixed.limit * 0.999).p99_wait < math.inf
    assert mixed.at(mixed.limit * 1.001).p99_wait == math.inf


def test_no_partitions_help_a_name_that_is_too_much_for_one() -> None:
    assert model(names=1).at(5000.0).partitions_needed is None


def test_finer_names_are_enough() -> None:
    parts = model().finer(400.0)
    assert (
        model(names=parts).at(400.0).busy <= FULL + 0.02
    )  # requests wait for one another a little
    assert model(names=parts - 1).at(400.0).busy > FULL


def test_the_ttl_is_the_formula() -> None:
    assert shortest_ttl(2.0, 0.5) == pytest.approx(suggest_ttl(2.0, 0.5, 0.025))
    assert shortest_ttl(0.01, 0.001) == 1.0


@pytest.mark.parametrize("skew", [0.0, 0.7, 1.0, 2.0])
def test_groups_of_names_are_all_names(skew: float) -> None:
    names = Names(20_000, skew)
    exact = [number**-skew for number in range(1, 20_001)]
    total = sum(exact)
    assert sum(group.names for group in names.groups) == 20_000
    assert sum(group.names * group.share for group in names.groups) == pytest.approx(1.0)
    assert names.busiest == pytest.approx(exact[0] / total, rel=1e-3)
    squares = sum(group.names * group.share**2 for group in names.groups)
    assert squares == pytest.approx(sum((each / total) ** 2 for each in exact), rel=1e-3)


def test_a_billion_names_are_no_more_work() -> None:
    assert len(Names(10**9, 1.0).groups) < 3000
