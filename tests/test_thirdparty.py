"""Engines of other packages: found by their entry point, and used like our own.

The package is tests/thirdparty, which docs/engines/writing-your-own.md shows in full. The tests put it on the
path of a new process, as an installer would.
"""

import configparser
import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tests.effort import effort
from tests.program import Program

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "tests" / "thirdparty"

SYNC = """
import fencelock
with fencelock.Client("acme://{folder}/locks") as client, client.lock("x") as lease:
    print(client.traits.guarantee, lease.fence > 0, client.names())
"""

ASYNC = """
import asyncio, fencelock

async def main():
    async with fencelock.AsyncClient("acme://{folder}/locks") as client:
        async with client.lock("x") as lease:
            waiting = asyncio.create_task(client.lock("x").acquire())
            while not (await client.inspect("x")).waiting:
                await asyncio.sleep(0.01)
        later = await waiting
        print(later.fence > lease.fence)
        await later.release()

asyncio.run(main())
"""

CONFORMANCE = """
import pytest
from fencelock.testing.conformance.suite import *


@pytest.fixture
def engine_url(tmp_path):
    return f"acme://{tmp_path}/locks"
"""
PLANTED = """
import importlib.util
from acme_locks import AcmeEngine

assert importlib.util.find_spec("tests") is None, "the suite must not need our own tests"

async def renew(self, tickets, *, timeout):
    return [await self.enter(each, if_free=False, timeout=timeout) for each in tickets]

AcmeEngine.renew = renew
"""


@pytest.fixture
def installed(tmp_path: Path) -> Path:
    """A folder that looks like site-packages after `pip install acme-locks`."""
    project = tomllib.loads((PACKAGE / "pyproject.toml").read_text())["project"]
    shutil.copy(PACKAGE / "acme_locks.py", tmp_path)
    information = tmp_path / f"acme_locks-{project['version']}.dist-info"
    information.mkdir()
    (information / "METADATA").write_text(
        f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n"
    )
    entry_points = configparser.ConfigParser()
    entry_points.read_dict(project["entry-points"])
    with (information / "entry_points.txt").open("w") as file:
        entry_points.write(file)
    return tmp_path


def python(site: Path, *arguments: str) -> str:
    path = os.pathsep.join([str(site), str(ROOT / "src")])
    done = subprocess.run(
        [sys.executable, *arguments],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_a_blocking_program_can_use_it(installed: Path) -> None:
    program = SYNC.format(folder=installed)
    assert python(installed, "-c", program) == "efficiency True ['x']"


def test_an_asyncio_program_can_use_it(installed: Path) -> None:
    program = ASYNC.format(folder=installed)
    assert python(installed, "-c", program) == "True"


def test_the_command_line_can_use_it(installed: Path) -> None:
    run = ("-m", "fencelock", "run", "x", "--url", f"acme://{installed}/locks", "--", "printenv")
    assert python(installed, *run, "FENCELOCK_NAME") == "x"


def conform(site: Path, source: str, *options: str) -> tuple[int, str]:
    """What pytest says when the author of the engine runs our suite, with the one plugin that it needs."""
    (site / "test_acme.py").write_text(source)
    (site / "pytest.ini").write_text("[pytest]\nasyncio_default_fixture_loop_scope = function\n")
    command = (sys.executable, "-m", "pytest", "-ppytest_asyncio.plugin", "-rsf", *options)
    path = os.pathsep.join([str(site), str(ROOT / "src")])
    environment = {**os.environ, "PYTHONPATH": path, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    with Program(*command, folder=site, environment=environment) as program:
        return program.end(), program.output


@pytest.mark.slow
def test_it_passes_the_conformance_suite(installed: Path) -> None:
    # One face is enough to see that the package works. `./soak` runs both.
    code, said = conform(installed, CONFORMANCE, *effort(("-k", "not [sync]"), ()))
    assert code == 0, said
    assert int(re.findall(r"(\d+) passed", said)[0]) > 80
    skipped = re.findall(r"^SKIPPED .*: (.*)$", said, re.MULTILINE)
    assert skipped
    assert all(reason.startswith("trait ") for reason in skipped), "only a trait excuses an engine"


def test_the_suite_finds_an_engine_that_is_wrong(installed: Path) -> None:
    code, said = conform(installed, CONFORMANCE + PLANTED, "-k", "renewal and brings")
    assert code == 1
    assert "FAILED test_acme.py::test_a_renewal_never_brings_a_ticket_back[sync] - assert" in said
    assert "2 failed" in said


def test_the_documentation_shows_this_very_package() -> None:
    page = (ROOT / "docs" / "engines" / "writing-your-own.md").read_text()
    assert CONFORMANCE.strip() in page
    for name in ("acme_locks.py", "pyproject.toml"):
        assert (PACKAGE / name).read_text() in page, name
