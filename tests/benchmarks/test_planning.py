"""The model of `fencelock plan` against a simulation of each request, and one small run on a real engine."""

from __future__ import annotations

import time
from itertools import pairwise
from pathlib import Path
from random import Random

import pytest

from benchmarks.planning import measured
from benchmarks.planning.measured import callers_of, replayed
from benchmarks.planning.scale import Case, FinerNames, homes_of, simulate
from fencelock import Client
from fencelock.engines.routing import RoutedEngine
from fencelock.planning.held import Fixed
from fencelock.planning.names import Names

CLIENTS = 20_000


@pytest.mark.parametrize(
    ("names", "per_second", "partitions"),
    [
        (Names(20_000), 14_000.0, 2),
        (FinerNames(5_000, 1.0), 10_000.0, 4),
        (Names(50, 1.0), 80.0, 1),
    ],
    ids=["alike", "finer", "zipf"],
)
def test_the_model_agrees_with_a_simulation(
    names: Names, per_second: float, partitions: int
) -> None:
    case = Case("test", names, 0.02, per_second)
    random = Random(4)
    wanted = case.draw(random, CLIENTS)
    homes = next(homes for count, homes in homes_of(wanted) if count == partitions)
    found = simulate(case, partitions, wanted, homes, random)
    load = case.model(partitions).at(per_second)
    assert load.partition_busy == pytest.approx(found.busy, rel=0.15)
    assert load.mean_wait_anywhere == pytest.approx(found.mean, rel=0.15)


def test_names_live_where_a_client_looks_for_them() -> None:
    numbers = range(30)
    with Client({"*": [f"memory://planning-{n}" for n in range(4)]}) as client:
        engine = client._context.engine
        assert isinstance(engine, RoutedEngine)
        homes = next(homes for count, homes in homes_of(numbers) if count == 4)
        parts = engine.parts()
        for number in numbers:
            assert parts.index(engine.part_of(f"name:{number}")) == homes[number]


def test_callers_at_a_real_engine(tmp_path: Path) -> None:
    callers = callers_of(100.0, Fixed(0.004), 0.6, Random(1))
    url = f"sqlite:///{tmp_path}/locks.db"
    turns = sorted(measured.play(url, "name", time.monotonic(), callers))
    assert len(turns) == len(callers)
    held = sorted((turn.got, turn.released) for turn in turns)
    assert all(one[1] <= other[0] for one, other in pairwise(held))
    assert len(replayed(turns)) == len(turns)
