"""Replicas that the tests may kill, stop and drain."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.conformance.cells import FACES, Cell
from tests.servers_service import Replica

StartReplica = Callable[..., Replica]


@pytest.fixture
def replica(redis_url: str, tmp_path: Path) -> Iterator[StartReplica]:
    """Start as many replicas as a test asks for. They are equals: the same Redis is behind them."""
    with ExitStack() as running:
        count = 0

        def start(url: str = redis_url) -> Replica:
            nonlocal count
            count += 1
            return running.enter_context(Replica(tmp_path / f"replica-{count}", url))

        yield start


@pytest.fixture(scope="module")
def fragile_pair(
    redis_url: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Replica, Replica]]:
    """To start a replica is half a second of work, so each test's damage is repaired instead."""
    folder = tmp_path_factory.mktemp("replicas")
    with Replica(folder / "1", redis_url) as first, Replica(folder / "2", redis_url) as second:
        yield first, second


@pytest.fixture
def pair(
    fragile_pair: tuple[Replica, Replica], redis_url: str
) -> Iterator[tuple[Replica, Replica]]:
    """Two replicas that no other test uses meanwhile. The test may kill, freeze and drain them."""
    yield fragile_pair
    for each in fragile_pair:
        if each.engine_url != redis_url:
            each.kill()
            each.engine_url = redis_url
        if each.runs:
            each.thaw()
        else:
            each.start()


@pytest.fixture(params=FACES)
async def cell(
    request: pytest.FixtureRequest, pair: tuple[Replica, Replica]
) -> AsyncIterator[Cell]:
    """A cell with two replicas."""
    ports = ",".join(f"127.0.0.1:{each.port}" for each in pair)
    cell = Cell("http+redis", request.param, f"http://{ports}")
    yield cell
    await cell.close()
