"""Fixtures for what only ZooKeeper does."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from fencelock.engines.zookeeper.transport import Transport
from tests.conformance.cells import Cell, OpenCell
from tests.engines.zookeeper.observing import Trips, Witness
from tests.servers_zookeeper import Ensemble


@pytest.fixture(scope="session")
def zookeeper_url(zookeeper: Ensemble) -> str:
    """The URL of this worker's own ensemble. A witness can count there what happens."""
    return f"{zookeeper.url}/tests?session=600"


@pytest.fixture
def cell(zookeeper_url: str, open_cell: OpenCell) -> Cell:
    """A cell on the ensemble of this worker, which a test must not harm."""
    return open_cell(zookeeper_url)


@pytest.fixture
def private(private_zookeeper: Ensemble) -> Ensemble:
    """An ensemble that only this test uses, and may break."""
    return private_zookeeper


@pytest.fixture
def witness() -> Iterator[Callable[[Ensemble], Witness]]:
    """A client of kazoo's own: `witness(ensemble)`."""
    with ExitStack() as running:
        yield lambda ensemble: running.enter_context(Witness(ensemble))


@pytest.fixture
def trips(monkeypatch: pytest.MonkeyPatch) -> Trips:
    """The requests of each round trip, by kind, once they are answered."""
    seen: Trips = []
    exchange = Transport.exchange

    async def recording(transport: Transport, requests: list[Any], until: float) -> Any:
        batch = await exchange(transport, requests, until)
        seen.append([type(request).__name__ for request in requests])
        return batch

    monkeypatch.setattr(Transport, "exchange", recording)
    return seen


@pytest.fixture(autouse=True)
def _patient(patient: None) -> None:
    pass
