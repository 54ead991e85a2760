"""pytest-asyncio: each test has its own event loop, and all use one client at module level."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from tests.program import Program

TESTS = """
import asyncio, os
import pytest
import fencelock

client = fencelock.AsyncClient()
leases = []
loops = set()

@client.locked("decorated")
async def decorated(lease):
    lease.check()

async def use():
    loops.add(asyncio.get_running_loop())
    async with client.lock("x", ttl=3600) as lease:
        await decorated()
        leases.append(lease)

async def test_one():
    await use()

async def test_other():
    await use()
    assert len(loops) == 2
    with pytest.raises(fencelock.FencelockError, match="another event loop"):
        leases[0].check()
"""
CLOSING = """
@pytest.fixture(autouse=True)
async def closed():
    yield
    await client.close()
"""


def run(folder: Path, url: str, source: str) -> str:
    (folder / "test_it.py").write_text(source)
    (folder / "pytest.ini").write_text(
        "[pytest]\nasyncio_mode = auto\nasyncio_default_fixture_loop_scope = function\n"
    )
    command = (sys.executable, "-m", "pytest", "-W", "error", "-p", "no:xdist", "-p", "no:valkey")
    environment = {**os.environ, "FENCELOCK_URL": url}
    with Program(*command, folder=folder, environment=environment) as program:
        program.end()
        return program.output


@pytest.fixture(params=["redis", "sqlite"])
def url(request: pytest.FixtureRequest, redis_url: str, tmp_path: Path) -> str:
    return redis_url if request.param == "redis" else f"sqlite:///{tmp_path}/locks.db"


def test_a_client_that_each_test_closes(url: str, tmp_path: Path) -> None:
    assert "2 passed" in run(tmp_path, url, TESTS + CLOSING)


def test_a_client_that_no_test_closes(url: str, tmp_path: Path) -> None:
    said = run(tmp_path, url, TESTS)
    print(said)
    assert "2 passed" in said
