"""The progress of the benchmark, on stderr."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Self

from fencelock.cli.messages import say
from fencelock.io.clock import now

if TYPE_CHECKING:
    import rich.progress


class Progress:
    """On a terminal a bar, which disappears at the end; else a line per step. Use it in a `with`."""

    def __init__(self, steps: int) -> None:
        self._bar = _bar(steps) if sys.stderr.isatty() else None
        self._done = -1
        self._began = self._seconds = 0.0

    def __enter__(self) -> Self:
        if self._bar is not None:
            self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.stop()

    def step(self, what: str, seconds: float) -> None:
        """The next step begins."""
        self._done += 1
        self._began, self._seconds = now(), seconds
        if self._bar is None:
            say(f"measuring {what}")
        else:
            self._bar.update(self._bar.task_ids[0], completed=self._done, description=what)

    def tick(self) -> None:
        """Time has passed within a step."""
        if self._bar is not None:
            part = min(1.0, (now() - self._began) / self._seconds)
            self._bar.update(self._bar.task_ids[0], completed=self._done + part)


def _bar(steps: int) -> rich.progress.Progress:
    # Only here, because the import of rich takes longer than everything else.
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (BarColumn(), TextColumn("{task.description}"), TimeRemainingColumn())
    bar = Progress(*columns, console=Console(stderr=True), transient=True)
    bar.add_task("", total=steps)
    return bar
