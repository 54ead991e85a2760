"""All tests of an engine, for a test module of the package that has the engine:

    import pytest
    from fencelock.testing.conformance.suite import *

    @pytest.fixture
    def engine_url(tmp_path):
        return f"acme://{tmp_path}/locks"

A test that the traits of the engine don't allow is skipped.
"""

# ruff: noqa: F403, F405 - the star is the purpose of this module

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from fencelock.testing.conformance.cells import FACES, Cell, be_patient
from fencelock.testing.conformance.test_attach import *
from fencelock.testing.conformance.test_bounded import *
from fencelock.testing.conformance.test_callers import *
from fencelock.testing.conformance.test_confirm import *
from fencelock.testing.conformance.test_dropped import *
from fencelock.testing.conformance.test_election import *
from fencelock.testing.conformance.test_healing import *
from fencelock.testing.conformance.test_inquiries import *
from fencelock.testing.conformance.test_loss import *
from fencelock.testing.conformance.test_namespaces import *
from fencelock.testing.conformance.test_notes import *
from fencelock.testing.conformance.test_once import *
from fencelock.testing.conformance.test_portable import *
from fencelock.testing.conformance.test_queue import *
from fencelock.testing.conformance.test_rate import *
from fencelock.testing.conformance.test_rwlock import *
from fencelock.testing.conformance.test_semaphore import *
from fencelock.testing.conformance.test_several import *
from fencelock.testing.conformance.test_sharing import *
from fencelock.testing.conformance.test_transaction import *
from fencelock.testing.conformance.test_waiting import *

pytestmark = pytest.mark.asyncio


@pytest_asyncio.fixture(params=FACES)
async def cell(request: pytest.FixtureRequest, engine_url: str) -> AsyncIterator[Cell]:
    """The engine with one face."""
    async with Cell(engine_url.partition(":")[0], request.param, engine_url) as cell:
        yield cell


@pytest_asyncio.fixture
async def async_cell(engine_url: str) -> AsyncIterator[Cell]:
    """The engine in asyncio, for what only asyncio has: a task to be cancelled."""
    async with Cell(engine_url.partition(":")[0], "async", engine_url) as cell:
        yield cell


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a busy machine a request may take longer than a program would wait."""
    be_patient(monkeypatch)


__all__ = ["async_cell", "cell", "patience", "portable", "pytestmark"]
__all__ += [name for name in dir() if name.startswith("test_")]
