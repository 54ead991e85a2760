"""No cell may be missing: every engine, every face, every test."""

import importlib
import inspect
import pkgutil
from pathlib import Path

from holdfast.engines.registry import _BUILT_IN
from tests.conformance.cells import ENGINES, FACES

# Schemes that reach an engine of the matrix by another way; each has tests of its own.
OTHER_WAYS = {
    "rediss": "redis",
    "redis+sentinel": "redis",
    "rediss+sentinel": "redis",
    "rediss+cluster": "redis+cluster",
}


def test_every_engine_that_a_url_can_name_is_in_the_matrix() -> None:
    covered = set(ENGINES) | {other for other, way in OTHER_WAYS.items() if way in ENGINES}
    assert set(_BUILT_IN) <= covered


def test_every_cell_is_in_the_matrix() -> None:
    assert set(CELLS) == set(product(ENGINES, ("sync", "async")))
    marks = {one.name: one.params for one in _parameters()}
    assert marks == {"cell": CELLS, "async_cell": list(ENGINES), "sync_cell": list(ENGINES)}


def test_every_conformance_test_runs_in_every_cell() -> None:
    folder = Path(__file__).parent
    for module in pkgutil.iter_modules([str(folder)]):
        if not module.name.startswith("test_") or module.name == "test_matrix":
            continue
        tests = inspect.getmembers(
            importlib.import_module(f"tests.conformance.{module.name}"), inspect.isfunction
        )
        for name, function in tests:
            if name.startswith("test_"):
                asks_for = set(inspect.signature(function).parameters)
                assert asks_for & {"cell", "async_cell", "sync_cell"}, f"{module.name}.{name}"
