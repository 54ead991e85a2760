"""Which failures get a second chance, and how the run ends then."""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

import fencelock
from tests.unsteady import only_waited
from tests.waiting import InVain, eventually, soon

# What counts as a wait that timed out.


async def waits_with_us() -> None:
    await soon(lambda: False, "nothing", 0.01)


async def waits_with_us_in_a_group() -> None:
    async with asyncio.TaskGroup() as group:
        group.create_task(waits_with_us())
        group.create_task(asyncio.sleep(60))


async def waits_with_asyncio() -> None:
    await asyncio.wait_for(asyncio.sleep(60), 0.01)


async def waits_for_a_lock_with_asyncio() -> None:
    async with fencelock.AsyncClient("memory://") as client, client.lock("x"):
        task = asyncio.create_task(client.lock("x").acquire())
        await asyncio.wait_for(task, 0.01)


async def waits_for_a_process() -> None:
    subprocess.run(["sleep", "60"], timeout=0.01)  # noqa: ASYNC221


async def waits_for_a_line() -> None:
    one, other = socket.socketpair()
    with one, other:
        one.settimeout(0.01)
        one.recv(1)


async def waits_after_a_wait() -> None:
    try:
        await waits_with_asyncio()
    finally:
        await waits_with_us()


async def asserts() -> None:
    raise AssertionError("two holders at once")


async def asserts_and_waits_in_the_end() -> None:
    try:
        await asserts()
    finally:
        await waits_with_us()


async def asserts_in_a_group_that_waits() -> None:
    async with asyncio.TaskGroup() as group:
        group.create_task(waits_with_us())
        group.create_task(asserts())


async def waits_and_asserts_in_the_end() -> None:
    try:
        await waits_with_us()
    finally:
        await asserts()


async def does_not_get_a_lock() -> None:
    async with fencelock.AsyncClient("memory://") as client, client.lock("x"):
        task = asyncio.create_task(client.lock("x").acquire(timeout=0.01))
        await task


async def gets_a_timeout_from_the_product() -> None:
    scope: dict[str, Callable[[], Awaitable[None]]] = {}
    source = "async def leak(): raise TimeoutError"
    exec(source, {"__name__": "fencelock.engines.leaky"}, scope)
    await scope["leak"]()


async def is_cancelled() -> None:
    raise asyncio.CancelledError


async def caught(act: Callable[[], Awaitable[None]]) -> BaseException:
    try:
        await act()
    except BaseException as error:
        return error
    raise AssertionError("nothing was raised")


@pytest.mark.parametrize(
    "act",
    [
        waits_with_us,
        waits_with_us_in_a_group,
        waits_with_asyncio,
        waits_for_a_lock_with_asyncio,
        waits_for_a_process,
        waits_for_a_line,
        waits_after_a_wait,
    ],
)
async def test_a_wait_that_timed_out(act: Callable[[], Awaitable[None]]) -> None:
    assert only_waited(await caught(act))


@pytest.mark.parametrize(
    "act",
    [
        asserts,
        asserts_and_waits_in_the_end,
        asserts_in_a_group_that_waits,
        waits_and_asserts_in_the_end,
        does_not_get_a_lock,
        gets_a_timeout_from_the_product,
        is_cancelled,
    ],
)
async def test_something_else(act: Callable[[], Awaitable[None]]) -> None:
    assert not only_waited(await caught(act))


def test_a_wait_in_a_thread() -> None:
    with pytest.raises(InVain, match=r"waited 0.01 s in vain for nothing"):
        eventually(lambda: False, "nothing", 0.01)


# How the run ends.

ROOT = Path(__file__).parent.parent

CONFTEST = """
import os
import pathlib
import pytest
from tests.waiting import eventually

pytest_plugins = ["tests.unsteady"]


def pytest_configure():
    import tests.unsteady
    tests.unsteady.LIMIT = float(os.environ["LIMIT"])


@pytest.fixture
def runs(request):
    \"\"\"How often the test has run before, in all processes.\"\"\"
    journal = pathlib.Path(request.node.name)
    before = journal.stat().st_size if journal.exists() else 0
    journal.write_bytes(b"." * (before + 1))
    return before


@pytest.fixture
def wait(runs):
    return lambda: eventually(lambda: runs > 0, "a busy machine", 0.01)


@pytest.fixture
def wait_before(wait):
    wait()


@pytest.fixture
def wait_after(wait):
    yield
    wait()
"""

HEAD = "import os, pytest, threading\nfrom tests.waiting import eventually"
STEADY = "def test_steady(): pass"
SETUP = "def test_setup(wait_before): pass"
CALL = "def test_call(wait): wait()"
TEARDOWN = "def test_teardown(wait_after): pass"
BOTH = "def test_both(wait, wait_after): wait()"


class Run:
    """Run pytest on some tests as `./test` does, with two excused tests instead of five."""

    def __init__(self, folder: Path, tests: list[str], *options: str, limit: float = 120) -> None:
        (folder / "conftest.py").write_text(CONFTEST)
        for number, test in enumerate(tests):
            (folder / f"test_{number}.py").write_text(f"{HEAD}\n{test}")
        (folder / "pytest.toml").write_text(
            f"[pytest]\naddopts = ['-p', 'xdist']\npythonpath = [{str(ROOT)!r}]\n"
        )
        ended = subprocess.run(
            [sys.executable, "-m", "pytest", "--unsteady", "2", *options],
            cwd=folder,
            env={**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "LIMIT": str(limit)},
            capture_output=True,
            text=True,
            timeout=100,
        )
        self.code = ended.returncode
        self.lines = ended.stdout.splitlines()
        self.said = ended.stdout + ended.stderr

    @property
    def closing(self) -> str:
        """The last line, without its colours and its duration."""
        return self.lines[-1].strip("= ").partition(" in ")[0]

    @property
    def excused(self) -> list[str]:
        return [line.partition("::")[2] for line in self.lines if line.startswith("UNSTEADY ")]


@pytest.mark.parametrize("options", [(), ("-n2", "--dist=worksteal")])
def test_excused(tmp_path: Path, options: tuple[str, ...]) -> None:
    """A test is counted once, whichever of its phases timed out."""
    run = Run(tmp_path, [STEADY, BOTH, TEARDOWN], *options)
    assert run.code == 0, run.said
    assert run.closing == "1 passed, 2 unsteady"
    assert run.excused == ["test_both", "test_teardown"]
    assert run.said.count("InVain: waited 0.01 s in vain for a busy machine") == 3, "not silently"
    assert {(tmp_path / test).stat().st_size for test in run.excused} == {3}, (
        "once, and twice alone"
    )


WRONG = "def test_wrong(): assert False"
ALWAYS = "def test_always(): eventually(lambda: False, 'ever', 0.01)"
SKIPS = "def test_skips(wait): wait(); pytest.skip()"
SECOND = "def test_second(wait, runs): wait(); assert runs < 2"
MISSING = "import no_such_module"
CRASH = "def test_crash(): os._exit(1)"


@pytest.mark.parametrize(
    ("tests", "options", "closing"),
    [
        ([STEADY, CALL, WRONG], (), "2 failed, 1 passed"),
        ([SETUP, CALL, TEARDOWN], (), "1 failed, 1 passed, 2 errors"),
        ([ALWAYS], (), "1 failed"),
        ([SKIPS], (), "1 failed"),
        ([SECOND], (), "1 failed"),
        ([CALL, STEADY], ("-x",), "1 failed"),
        ([CALL, MISSING], ("--continue-on-collection-errors",), "1 failed, 1 error"),
        ([CALL, CRASH], ("-n1",), "2 failed"),
    ],
    ids=["wrong", "three", "always", "skips", "second", "cut", "missing", "crash"],
)
def test_red(tmp_path: Path, tests: list[str], options: tuple[str, ...], closing: str) -> None:
    run = Run(tmp_path, tests, *options)
    assert (run.code, run.closing, run.excused) == (1, closing, []), run.said


def test_one_that_hangs_by_itself(tmp_path: Path) -> None:
    hangs = "def test_hangs(wait): wait(); threading.Event().wait()"
    run = Run(tmp_path, [hangs], limit=3)
    assert (run.code, run.closing, run.excused) == (1, "1 failed", []), run.said
    assert "does not pass by itself either" in run.said
