"""Fencelock's plugin for pytest: locks between the workers of pytest-xdist, and clients for tests.

pytest loads it in every run of an environment in which Fencelock is installed. So it imports nothing of it
until a test asks for something. That is why it stands outside of the package, which an import would load.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from typing import TYPE_CHECKING, Any, TypeVar

import pytest

if TYPE_CHECKING:
    from fencelock import testing
    from fencelock.integrations.pytest import RunLocks

T = TypeVar("T")

_LOCKS = pytest.StashKey["RunLocks"]()
_TTL = 10.0


def pytest_addoption(parser: pytest.Parser) -> None:
    text = f"seconds after which the locks of a worker that was killed are free (default: {_TTL:g})"
    parser.addini("lock_ttl", text, default=str(_TTL))


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers",
        "lock(*names, shared=False): runs while no other test of the run, in no worker of xdist, holds these "
        "names. Tests with shared=True hold a name together.",
    )


@pytest.hookimpl(tryfirst=True)  # before the fixtures
def pytest_runtest_setup(item: pytest.Item) -> None:
    if item.get_closest_marker("lock") is not None:
        _locks(item.config).hold(item)


@pytest.hookimpl(wrapper=True, trylast=True)  # right after the fixtures
def pytest_runtest_teardown(item: pytest.Item) -> Generator[None, Any, Any]:
    try:
        return (yield)
    finally:
        if _LOCKS in item.config.stash:
            item.config.stash[_LOCKS].release()


@pytest.fixture(scope="session")
def once_per_run(pytestconfig: pytest.Config) -> Callable[[str, Callable[[], T]], T]:
    """`once_per_run(name, work)` does some work once in the whole run, and returns its result in each worker.

    The result must be something that JSON can hold. If the work fails, it fails in each worker.
    """
    return _locks(pytestconfig).once


@pytest.fixture
def lock_client() -> Iterator[testing.Client]:
    """A `fencelock.testing.Client` of this test: in memory, with a clock that the test moves."""
    from fencelock import testing

    with testing.Client() as client:
        yield client


@pytest.fixture
def async_lock_client() -> testing.AsyncClient:
    """A `fencelock.testing.AsyncClient` of this test."""
    from fencelock import testing

    return testing.AsyncClient()


def _locks(config: pytest.Config) -> RunLocks:
    if _LOCKS not in config.stash:
        from fencelock.integrations.pytest import RunLocks

        config.stash[_LOCKS] = locks = RunLocks(config)
        config.add_cleanup(locks.close)
    return config.stash[_LOCKS]
