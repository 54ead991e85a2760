"""The plugin for pytest, in real runs with workers of pytest-xdist."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

import fencelock
from fencelock import testing
from fencelock.integrations.pytest import RunLocks
from tests.integrations.pages import write_files
from tests.program import Program

WORKER = """
import os, sys, time
from pathlib import Path
import pytest

assert "fencelock" not in sys.modules, "the plugin must not import what this run may not need"
HERE = Path(__file__).parent
NAME = Path(__file__).stem

def say(file, text):
    with (HERE / file).open("a") as log:
        log.write(f"{text}\\n")

@pytest.mark.lock("db")
@pytest.mark.parametrize("turn", range(4))
def test_alone(turn):
    (HERE / "alone").touch(exist_ok=False)
    time.sleep(0.01)
    (HERE / "alone").unlink()

@pytest.mark.lock("files", "more files", shared=True)
def test_together():
    (HERE / f"{NAME}.here").touch()
    until = time.monotonic() + 60
    while len(list(HERE.glob("*.here"))) < 3:
        assert time.monotonic() < until
        time.sleep(0.01)

def set_up():
    say("set-ups", "set up")
    return {"made by": NAME}

def test_once(once_per_run):
    say("results", once_per_run("db", set_up))

def fail_to_set_up():
    say("failures", "failed")
    pytest.fail("there is no database")

def test_a_failure_is_told_to_all(once_per_run):
    with pytest.raises(Exception, match="there is no database"):
        once_per_run("other", fail_to_set_up)
"""
TROUBLE = """
import fencelock

@pytest.mark.lock("broken")
def test_loses_its_lock(tmp_path_factory):
    file = tmp_path_factory.getbasetemp().parent / "fencelock.db"
    assert fencelock.Client(f"sqlite://{file}").break_lock("lock broken")

@pytest.mark.lock(db=True)
def test_with_a_wrong_mark():
    pass
"""
DIES = """
import os, pytest

@pytest.mark.lock("db")
def test_dies():
    os._exit(9)
"""
NEXT = """
import pytest

@pytest.mark.lock("db")
@pytest.mark.parametrize("turn", range(3))
def test_next(turn):
    pass
"""


def run(folder: Path, *options: str) -> str:
    """What pytest says of the tests in this folder, each file in a worker of its own."""
    heavy = ("schemathesis", "valkey", "asyncio", "anyio", "hypothesispytest")
    without = [word for plugin in heavy for word in ("-p", f"no:{plugin}")]
    command = (sys.executable, "-m", "pytest", "--dist=loadfile", *without)
    temporary = f"--basetemp={folder / 'temporary files'}"
    with Program(*command, temporary, *options, folder=folder) as program:
        program.end()
        return program.output


def test_all_workers_share_the_locks_of_a_run(tmp_path: Path) -> None:
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    for name in ("a", "b", "c"):
        (tmp_path / f"test_{name}.py").write_text(WORKER + TROUBLE * (name == "c"))
    said = run(tmp_path, "-n3")
    assert "22 passed, 2 errors" in said, said
    assert "ERROR at teardown of test_loses_its_lock" in said
    assert "LeaseLost: the lease on 'lock broken'" in said
    assert '@pytest.mark.lock("db", shared=True)' in said
    assert (tmp_path / "set-ups").read_text().count("set up") == 1
    assert len(set((tmp_path / "results").read_text().splitlines())) == 1
    assert (tmp_path / "failures").read_text().count("failed") == 1


def test_a_worker_that_is_killed_frees_its_locks(tmp_path: Path) -> None:
    (tmp_path / "pytest.ini").write_text("[pytest]\nlock_ttl = 500ms\n")
    (tmp_path / "test_a.py").write_text(DIES)
    (tmp_path / "test_b.py").write_text(NEXT)
    said = run(tmp_path, "-n2", "--max-worker-restart=0")
    assert "1 failed, 3 passed" in said, said


def test_the_examples_of_the_page_in_a_run_without_workers(tmp_path: Path) -> None:
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    write_files("pytest.md", tmp_path)
    assert "3 passed" in run(tmp_path, "-n0", "--strict-markers")


def test_a_ttl_that_is_none(pytestconfig: pytest.Config, monkeypatch: pytest.MonkeyPatch) -> None:
    for given, message in (("soon", "'soon' is not a duration"), ("0", "ttl must be between")):
        monkeypatch.setattr(pytestconfig, "getini", lambda name, given=given: given)
        with pytest.raises(pytest.UsageError, match=f"lock_ttl: {message}"):
            RunLocks(pytestconfig)


def pay(client: fencelock.Client) -> int:
    with client.lock("order:42") as lease:
        return lease.fence


def test_the_fixture_is_a_testing_client(lock_client: testing.Client) -> None:
    lock_client.clock.advance(5)
    assert pay(lock_client)


async def test_the_same_for_asyncio(async_lock_client: testing.AsyncClient) -> None:
    async with async_lock_client.lock("x", timeout=5) as lease:
        with async_lock_client.caller("B"), pytest.raises(fencelock.LockTimeout):
            await async_lock_client.lock("x", timeout=5).acquire()
        assert lease.remaining() > 0


@pytest.mark.lock("a name of this test")
def test_our_own_run_uses_it_too(once_per_run: object, tmp_path: Path) -> None:
    assert os.environ.get("PYTEST_CURRENT_TEST")
    assert callable(once_per_run)


@pytest.mark.lock("first of two", "second of two")
def test_a_lock_that_is_lost_keeps_no_other(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("fencelock.integrations.pytest._folder", lambda _: tmp_path)
    locks = RunLocks(request.config)
    locks.hold(request.node)
    client = fencelock.Client(f"sqlite://{tmp_path}/fencelock.db")
    client.break_lock("lock second of two")
    with pytest.raises(fencelock.LeaseLost):
        locks.release()
    assert client.names() == []
    locks.close()
