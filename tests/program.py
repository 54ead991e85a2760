"""Small programs that a test writes and a real Python runs: for tests of how a program starts and ends.

To start Python and import a client is 130 ms of work. For everything else use `tests/spawning.py`.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from textwrap import dedent
from typing import Self

from tests.servers import DIE_WITH_PARENT
from tests.waiting import PATIENCE, eventually

ROOT = Path(__file__).parent.parent


class Program:
    """A running program. It says line by line what it does; all it prints is in `output`."""

    def __init__(
        self, *command: str | Path, folder: Path = ROOT, environment: Mapping[str, str] = os.environ
    ) -> None:
        self._file = tempfile.TemporaryFile("w+")  # noqa: SIM115 - `__exit__` closes it
        self._process = subprocess.Popen(
            [*DIE_WITH_PARENT, *command],
            cwd=folder,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=self._file,
            stderr=self._file,
            start_new_session=True,  # so that its own children can be ended with it
        )
        self.pid = self._process.pid

    @classmethod
    def of(cls, argument: str, *parts: str, more: Sequence[str | Path] = ()) -> Self:
        """Run the source text that consists of these parts. `sys.argv[1]` is the argument."""
        return cls(sys.executable, "-c", "\n".join(map(dedent, parts)), argument, *more)

    @property
    def output(self) -> str:
        return os.pread(self._file.fileno(), 1_000_000, 0).decode()

    def expect(self, words: str) -> None:
        """Wait until it has printed this."""

        def said() -> bool:
            assert words in self.output or self._process.poll() is None, self.output
            return words in self.output

        eventually(said, f"the program to say {words!r}")

    def terminate(self) -> None:
        self._process.send_signal(signal.SIGTERM)

    def end(self) -> int:
        """Close its input, and wait for its end."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        return self.wait()

    def wait(self) -> int:
        """Wait for its end."""
        return self._process.wait(PATIENCE)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        with suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
        self.end()
        self._file.close()


def output_of(argument: str, *parts: str, more: Sequence[str | Path] = ()) -> str:
    """Run this source text to its end, which must be a good one. Returns what it printed."""
    with Program.of(argument, *parts, more=more) as program:
        assert program.end() == 0, program.output
        return program.output
