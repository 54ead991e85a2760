"""The `cell` fixture: one engine with one face. Every test here runs in every cell."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.conformance.cells import CELLS, ENGINES, Cell

HEARTBEAT = "?heartbeat=2"
"""What makes a loss known soon where a short ttl can't. Who stalls for thrice as long has lost its lease."""

# What only one face has: awaits to be cancelled at, a thread to be interrupted.


@pytest.fixture(autouse=True)
def _patient(patient: None) -> None:
    pass


@pytest.fixture(params=ENGINES)
async def async_cell(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Cell]:
    async with Cell(request.param, "async", url_of(request.param, request, tmp_path)) as cell:
        yield cell


@pytest.fixture(params=ENGINES)
async def sync_cell(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Cell]:
    async with Cell(request.param, "sync", url_of(request.param, request, tmp_path)) as cell:
        yield cell


@pytest.fixture(params=CELLS, ids="-".join)
async def cell(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Cell]:
    engine, face = request.param
    async with Cell(engine, face, url_of(engine, request, tmp_path)) as cell:
        yield cell


def url_of(engine: str, request: pytest.FixtureRequest, folder: Path) -> str:
    """Where the tests reach an engine."""
    if engine == "memory":
        return f"memory://{folder.name}"
    if engine == "sqlite":
        return f"sqlite:///{folder}/locks.db"
    if engine == "postgresql+advisory":
        url = str(request.getfixturevalue("postgresql_url"))
        return url.replace("postgresql://", "postgresql+advisory://") + HEARTBEAT
    if engine == "mysql+getlock":
        url = str(request.getfixturevalue("mysql_url"))
        return url.replace("mysql://", "mysql+getlock://") + HEARTBEAT
    if engine.startswith("http+"):
        replica_of = request.getfixturevalue("replica_of")
        return str(replica_of(engine.removeprefix("http+")).url)
    if engine == "redis+cluster":
        return str(request.getfixturevalue("redis_cluster").url)
    return str(request.getfixturevalue(f"{engine}_url"))
