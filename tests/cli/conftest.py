"""The real command in real processes, on every engine that several processes can share."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from uuid import uuid4

import psutil
import pytest

import fencelock
from tests.spawning import run
from tests.waiting import PATIENCE, InVain, eventually

WAITS = ("sh", "-c", "echo started; read _")
"""A command that says when it runs, and ends when its stdin does."""


class Started:
    """A `fencelock` that runs in the background."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        self.pid = process.pid
        self._read = b""

    def line(self) -> str:
        """The next line it or its command writes to stdout."""
        assert self.process.stdout is not None
        stdout = (
            self.process.stdout.fileno()
        )  # not the stream: what that has read can't be waited for
        while b"\n" not in self._read:
            if not select.select([stdout], [], [], PATIENCE)[0]:
                raise InVain("waited in vain for a line")
            data = os.read(stdout, 65536)
            assert data, f"it ended with {self.process.wait()}: {self.errors()}"
            self._read += data
        line, _, self._read = self._read.partition(b"\n")
        return line.decode()

    def errors(self) -> str:
        """What it has written to stderr, once it has ended."""
        assert self.process.stderr is not None
        return self.process.stderr.read()

    def hang_up(self) -> None:
        """Close its stdin, which ends a command that `WAITS`."""
        assert self.process.stdin is not None
        self.process.stdin.close()

    def signal(self, signum: int) -> None:
        os.kill(self.pid, signum)

    def wait(self) -> int:
        """Its exit code."""
        return self.process.wait(PATIENCE)

    def family(self) -> list[psutil.Process]:
        """All it has started: the supervisor, the command, and what that has started."""
        return psutil.Process(self.pid).children(recursive=True)


class Cli:
    """Runs `fencelock` with a given engine."""

    def __init__(self, url: str, home: Path, running: ExitStack) -> None:
        self.url = url
        self.environment = {
            **{key: value for key, value in os.environ.items() if not key.startswith("FENCELOCK")},
            "FENCELOCK_URL": url,
            "HOME": str(home),
            "XDG_STATE_HOME": str(home),
        }
        self._running = running

    def __call__(
        self, *words: str, input: str = "", **environment: str
    ) -> subprocess.CompletedProcess[str]:
        """Run it to its end."""
        return run("fencelock", *words, input=input, environment=self.environment | environment)

    def start(self, *words: str, under: Sequence[str] = ()) -> Started:
        """Start it in the background, perhaps `under` another program; the fixture ends it.

        What we ignore, as under nohup, it would ignore too: all signals get their defaults."""
        process = self._running.enter_context(
            subprocess.Popen(
                ["env", "--default-signal", *under, sys.executable, "-m", "fencelock", *words],
                env=self.environment,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
        )
        self._running.callback(_end, process)
        return Started(process)


def _end(process: subprocess.Popen[str]) -> None:
    if process.poll() is None:
        process.send_signal(signal.SIGKILL)  # and its supervisor ends the command


@pytest.fixture(params=["sqlite", "redis"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'locks.db'}"
    found: str = request.getfixturevalue("redis_url")
    return found


@pytest.fixture
def cli(url: str, tmp_path: Path) -> Iterator[Cli]:
    with ExitStack() as running:
        yield Cli(url, tmp_path, running)


@pytest.fixture
def sqlite_cli(tmp_path: Path) -> Iterator[Cli]:
    """For what has nothing to do with the engine."""
    with ExitStack() as running:
        yield Cli(f"sqlite:///{tmp_path / 'locks.db'}", tmp_path, running)


@pytest.fixture
def client(url: str) -> Iterator[fencelock.Client]:
    with fencelock.Client(url, label="the test") as client:
        yield client


@pytest.fixture
def name() -> str:
    """A name of its own for every test: they share a Redis."""
    return f"cli-{uuid4()}"


def waiting(client: fencelock.Client, name: str, count: int) -> None:
    """Wait until so many stand in the queue."""
    eventually(lambda: client.inspect(name).waiting == count, f"{count} to wait for {name}")


def nothing_left(client: fencelock.Client, name: str) -> bool:
    """Whether nobody holds the name or waits for it."""
    seen = client.inspect(name)
    return not seen.holders and not seen.waiting


def gone(processes: list[psutil.Process]) -> bool:
    """Whether all these have ended; a zombie has."""
    return not any(_runs(process) for process in processes)


def _runs(process: psutil.Process) -> bool:
    try:
        return bool(process.status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False
