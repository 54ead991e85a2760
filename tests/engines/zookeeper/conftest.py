"""Fixtures for what only ZooKeeper does."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from tests.conformance.cells import Cell, OpenCell
from tests.engines.zookeeper.seeing import Witness
from tests.servers_zookeeper import Ensemble


@pytest.fixture
def cell(zookeeper_url: str, open_cell: OpenCell) -> Cell:
    """On the ensemble that is shared: a test does it no harm."""
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
