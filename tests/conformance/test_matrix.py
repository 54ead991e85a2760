"""No cell may be missing: every engine, every face, every test."""

import importlib
import inspect
import pkgutil
from itertools import product
from pathlib import Path
from types import FunctionType

from fencelock.engines.registry import _BUILT_IN
from fencelock.testing import conformance
from fencelock.testing.conformance import suite
from tests.conformance import conftest
from tests.conformance.cells import CELLS, ENGINES

# What the other face does not have: awaits to be cancelled at, a thread to be interrupted.
ONE_FACE = {
    "test_a_loss_by_max_hold_cancels_the_body",
    "test_cancelled_at_every_await",
    "test_cancelled_while_being_granted",
    "test_every_primitive_is_cancelled_at_every_await",
    "test_interrupted_while_waiting",
    "test_losing_the_lease_cancels_the_body_on_request",
    "test_someone_elses_cancellation_stays_a_cancellation",
}

# Schemes that reach an engine of the matrix by another way; each has tests of its own.
OTHER_WAYS = {
    "rediss": "redis",
    "redis+unix": "redis",
    "redis+sentinel": "redis",
    "rediss+sentinel": "redis",
    "rediss+cluster": "redis+cluster",
    "redlocks": "redlock",
    "etcds": "etcd",
    "zookeepers": "zookeeper",
    "http": "http+redis",
    "https": "http+redis",
}


def test_every_engine_that_a_url_can_name_is_in_the_matrix() -> None:
    covered = set(ENGINES) | {other for other, way in OTHER_WAYS.items() if way in ENGINES}
    assert set(_BUILT_IN) <= covered


def test_every_cell_is_in_the_matrix() -> None:
    assert set(CELLS) == set(product(ENGINES, ("sync", "async")))
    for fixture, cells in (("cell", CELLS), ("async_cell", ENGINES), ("sync_cell", ENGINES)):
        marker = getattr(conftest, fixture)._fixture_function_marker
        assert list(marker.params) == list(cells), fixture


def test_every_conformance_test_runs_in_every_cell() -> None:
    for name, function in _tests_of("tests.conformance", Path(__file__).parent).items():
        asks_for = set(inspect.signature(function).parameters)
        wanted = {"async_cell", "sync_cell"} if name in ONE_FACE else {"cell"}
        assert asks_for & wanted, name


def test_our_engines_and_those_of_others_run_the_same_tests() -> None:
    ours = _tests_of("tests.conformance", Path(__file__).parent)
    package = _tests_of(conformance.__name__, Path(conformance.__path__[0]))
    assert len(package) > 100
    assert package.items() <= ours.items()
    for name, function in package.items():
        assert name in suite.__all__
        assert getattr(suite, name) is function, f"two tests are called {name}"


def _tests_of(package: str, folder: Path) -> dict[str, FunctionType]:
    """All tests of the modules in a folder, by name."""
    modules = [each.name for each in pkgutil.iter_modules([str(folder)])]
    return {
        name: function
        for module in modules
        if module.startswith("test_") and module != "test_matrix"
        for name, function in inspect.getmembers(
            importlib.import_module(f"{package}.{module}"), inspect.isfunction
        )
        if name.startswith("test_")
    }
