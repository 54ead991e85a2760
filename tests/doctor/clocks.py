"""Servers whose wall clock is wrong: `shifted_clock.c` is loaded into them."""

from __future__ import annotations

import os
import shutil
import struct
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

_SOURCE = Path(__file__).with_name("shifted_clock.c")


class ShiftedClock:
    """The clock of every process that is started within `loaded()`."""

    def __init__(self, folder: Path) -> None:
        compiler = shutil.which("cc")
        if compiler is None:
            pytest.skip("there is no C compiler to build a library that shifts a clock")
        self._library = folder / "shifted_clock.so"
        self._shift = folder / "shift"
        self.set(0.0)
        words = [
            compiler,
            "-shared",
            "-fPIC",
            "-o",
            str(self._library),
            str(_SOURCE),
            "-ldl",
            "-lm",
        ]
        subprocess.run(words, check=True)

    def set(self, seconds: float) -> None:
        """Move the clock of the running processes, too."""
        with self._shift.open("r+b" if self._shift.exists() else "wb") as file:
            file.write(struct.pack("d", seconds))

    @contextmanager
    def loaded(self, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
        """Load the library into the processes that are started meanwhile."""
        with monkeypatch.context() as patch:
            patch.setenv("LD_PRELOAD", str(self._library))
            patch.setenv("CLOCK_SHIFT", str(self._shift))
            yield
        assert "CLOCK_SHIFT" not in os.environ
