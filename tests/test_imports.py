"""A program imports only what it uses before its first lock."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import fencelock

DRIVERS = {"apsw", "asyncmy", "google", "grpc", "hiredis", "kazoo", "psycopg", "pymysql"}
SLOW = {
    "asyncio",
    "ctypes",
    "dataclasses",
    "importlib.metadata",
    "inspect",
    "json",
    "pathlib",
    "socket",
}
RARE = {"cycles", "election", "locked", "once", "policies", "several", "transaction", "wounds"}


def imported_by(*words: str, url: str = "") -> set[str]:
    """All modules that Python imports to run this code, as Python itself reports."""
    ended = subprocess.run(
        [sys.executable, "-X", "importtime", *words],
        env=os.environ | {"FENCELOCK_URL": url},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    lines = [line for line in ended.stderr.splitlines() if line.startswith("import time:")]
    return {line.rpartition("|")[2].strip() for line in lines}


def engines(modules: set[str]) -> set[str]:
    """The engines among these modules."""
    parts = [module.split(".") for module in modules if module.startswith("fencelock.engines.")]
    return {part[2] for part in parts} - {"contract", "registry"}


def test_the_library_brings_no_engine_and_nothing_that_is_slow() -> None:
    # Ignore what the environment imports, such as a tool that measures coverage.
    modules = imported_by("-c", "import fencelock") - imported_by("-c", "pass")
    assert "fencelock.client" in modules
    assert engines(modules) == set()
    assert modules & (DRIVERS | SLOW) == set()
    assert modules & {f"fencelock.primitives.{each}" for each in RARE} == set()


@pytest.mark.parametrize("words", [["ls"], ["top"], ["run", "x", "--", "true"]])
def test_the_command_brings_the_one_engine_that_it_uses(words: list[str], tmp_path: Path) -> None:
    modules = imported_by("-m", "fencelock", *words, url=f"sqlite:///{tmp_path / 'locks.db'}")
    modules -= imported_by("-c", "pass")
    assert engines(modules) == {"sqlite"}
    assert modules & DRIVERS == {"apsw"}
    assert modules & {"rich", "fencelock.cli.demo.runner", "fencelock.cli.top.loop"} == set()
    assert modules & {"fencelock.cli.torture", "fencelock.cli.bench.command"} == set()


_LACKING = """
import ctypes.util, sys, fencelock
if sys.argv[2] == "libpq":
    ctypes.util.find_library = lambda name: None
else:
    sys.modules[sys.argv[2]] = None
try:
    fencelock.Client(sys.argv[1])
except fencelock.Unsupported as error:
    print(error)
"""


@pytest.mark.parametrize(
    ("url", "lacking", "message"),
    [
        (
            "redis://a",
            "hiredis",
            "the package 'hiredis': install it with: pip install 'fencelock[redis]'",
        ),
        (
            "etcd://a",
            "google",
            "the package 'protobuf': install it with: pip install 'fencelock[etcd]'",
        ),
        (
            "etcd://a",
            "grpc",
            "the package 'grpcio': install it with: pip install 'fencelock[etcd]'",
        ),
        (
            "postgresql://a/b",
            "psycopg",
            "'psycopg': install it with: pip install 'fencelock[postgres]'",
        ),
        ("postgresql://a/b", "libpq", "libpq library not found"),
    ],
)
def test_what_is_missing_is_named_with_the_way_to_get_it(
    url: str, lacking: str, message: str
) -> None:
    ended = subprocess.run(
        [sys.executable, "-c", _LACKING, url, lacking],
        env=os.environ | {"PSYCOPG_IMPL": "python"},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert message in ended.stdout
    assert "pip install" in ended.stdout


def test_what_comes_later_is_there_when_it_is_asked_for() -> None:
    code = "import fencelock; print(*(getattr(fencelock, name).__name__ for name in fencelock.__all__))"
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ended.stdout.split() == fencelock.__all__
