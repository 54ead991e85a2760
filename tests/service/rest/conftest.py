"""A replica for the tests of the face for people. Each test uses names of its own."""

from collections.abc import Iterator
from itertools import count

import pytest

from tests.servers_service import Replica
from tests.service.rest.api import Api

_names = count()


@pytest.fixture(scope="session")
def replica(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Replica]:
    with Replica(tmp_path_factory.mktemp("service"), "memory://") as replica:
        yield replica


@pytest.fixture
def api(replica: Replica) -> Iterator[Api]:
    api = Api(replica.port)
    yield api
    api.close()


@pytest.fixture
def name() -> str:
    """The name of a lock that nobody else uses."""
    return f"lock:{next(_names)}"
