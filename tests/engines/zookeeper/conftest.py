"""Fixtures for what only ZooKeeper does."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from tests.conformance.cells import Cell, OpenCell
from tests.engines.zookeeper.observing import Witness
from tests.servers_zookeeper import Ensemble


@pytest.fixture(scope="session")
def zookeeper_url(zookeeper: Ensemble) -> str:
    """Of this worker's own ensemble, in which a witness looks around and counts."""
    return f"{zookeeper.url}/tests?session=600"


@pytest.fixture
def cell(zookeeper_url: str, open_cell: OpenCell) -> Cell:
    """On the ensemble of this worker: a test does it no harm."""
    return open_cell(zookeeper_url)


@pytest.fixture
def private(private_zookeeper: Ensemble) -> Ensemble:
    """An ensemble of one's own, to be broken."""
    return private_zookeeper


@pytest.fixture
def witness() -> Iterator[Callable[[Ensemble], Witness]]:
    """Somebody else's client: `witness(ensemble)`."""
    with ExitStack() as running:
        yield lambda ensemble: running.enter_context(Witness(ensemble))


@pytest.fixture(autouse=True)
def _patient(patient: None) -> None:
    pass
