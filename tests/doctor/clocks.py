"""Servers whose wall clock is wrong, for tests that start them with a fixture."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import fencelock.servers.clock


class ShiftedClock(fencelock.servers.clock.ShiftedClock):
    """The clock of every process that is started within `loaded()`."""

    def __init__(self, folder: Path) -> None:
        if shutil.which("cc") is None:
            pytest.skip("there is no C compiler to build a library that shifts a clock")
        super().__init__(folder)

    @contextmanager
    def loaded(self, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
        """Load the library into the processes that are started meanwhile."""
        with monkeypatch.context() as patch:
            for name, value in self.environment.items():
                patch.setenv(name, value)
            yield
