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
loops = set()

@client.locked("decorated")
async def decorated(lease):
    lease.check()

async def use():
    loops.add(asyncio.get_running_loop())
    async with client.lock("x", ttl=3600) as lease:
        await decorated()
        return lease

async def test_one():
    await use()

async def test_other():
    await use()
    assert len(loops) == 2
"""
LEASES = """
leases = []

async def test_yet_another():
    leases.append(await use())

async def test_a_lease_of_another_loop():
    await use()
    with pytest.raises(fencelock.FencelockError, match="another event loop"):
        leases[0].check()
"""
CLOSING = """
@pytest.fixture(autouse=True)
async def closed():
    yield
    await client.close()
"""


def run(folder: Path, url: str, source: str, *, warnings: str) -> str:
    """What pytest says of these tests. `warnings` is "error", or "default": then it prints them."""
    (folder / "test_it.py").write_text(source)
    (folder / "pytest.ini").write_text(
        "[pytest]\nasyncio_mode = auto\nasyncio_default_fixture_loop_scope = function\n"
    )
    command = (sys.executable, "-m", "pytest", "-W", warnings, "-p", "no:xdist", "-p", "no:valkey")
    environment = {**os.environ, "FENCELOCK_URL": url}
    with Program(*command, folder=folder, environment=environment) as program:
        program.end()
        return program.output


@pytest.fixture(params=["redis", "sqlite"])
def url(request: pytest.FixtureRequest, redis_url: str, tmp_path: Path) -> str:
    return redis_url if request.param == "redis" else f"sqlite:///{tmp_path}/locks.db"


def test_a_client_that_each_test_closes(url: str, tmp_path: Path) -> None:
    said = run(tmp_path, url, TESTS + LEASES + CLOSING, warnings="error")
    assert "4 passed" in said
    assert "Warning" not in said


def test_a_client_that_no_test_closes(url: str, tmp_path: Path) -> None:
    """It works, too. But asyncio warns of connections that its loop can't close any more."""
    said = run(tmp_path, url, TESTS, warnings="default")
    assert "2 passed" in said
    assert "never released" not in said
    assert ("unclosed transport" in said) == url.startswith("redis")
