"""How far the benchmark is: a bar on a terminal, a line per step elsewhere; always on stderr."""

from __future__ import annotations

import sys
from contextlib import AbstractContextManager, nullcontext
from typing import Self

from fencelock.cli.bench.steps import STEPS
from fencelock.cli.messages import say
from fencelock.io.clock import now


class Lines:
    """Says what is measured next."""

    def step(self, what: str, seconds: float) -> None:
        say(f"measuring {what}")

    def tick(self) -> None: ...


class Bar:
    """Fills while the workers are at it, and is gone when they are done."""

    def __init__(self) -> None:
        # Only here, because importing rich takes longer than everything else.
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

        columns = (BarColumn(), TextColumn("{task.description}"), TimeRemainingColumn())
        self._progress = Progress(*columns, console=Console(stderr=True), transient=True)
        self._task = self._progress.add_task("", total=STEPS)
        self._steps = 0
        self._began = self._seconds = 0.0

    def __enter__(self) -> Self:
        self._progress.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self._progress.stop()

    def step(self, what: str, seconds: float) -> None:
        self._progress.update(self._task, completed=self._steps, description=what)
        self._steps += 1
        self._began, self._seconds = now(), seconds

    def tick(self) -> None:
        part = min(1.0, (now() - self._began) / self._seconds)
        self._progress.update(self._task, completed=self._steps - 1 + part)


def progress() -> AbstractContextManager[Lines | Bar]:
    """What suits whoever reads stderr."""
    return Bar() if sys.stderr.isatty() else nullcontext(Lines())
