"""How `fencelock` ends: its exit codes, and the outcomes of a run. docs/cli.md has the same tables."""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Literal, NamedTuple, NoReturn

import click

from fencelock.core.errors import FencelockError

CONFLICT = 1
"""The lock was not free in time; `-E` chooses another code. `flock` uses 1, too."""
FREE = 1
"""Nobody holds the name or waits for it: `show -q`."""
WORSE = 1
"""The doctor found less than what is required."""
NOT_EXAMINED = 2
"""The doctor could not examine it."""
USAGE = 64
"""The command line is wrong (EX_USAGE of sysexits.h; `flock` uses it, too)."""
UNAVAILABLE = 69
"""The engine can't be reached or can't do what was asked (EX_UNAVAILABLE)."""
INTERNAL = 70
"""A bug in Fencelock itself (EX_SOFTWARE)."""
LOST = 119
"""The lease was lost while the command ran. Shells, sysexits.h and common tools do not use 119."""
NOT_EXECUTABLE = 126
NOT_FOUND = 127
SIGNALLED = 128
"""Plus the number of the signal, as in shells."""

Outcome = Literal[
    "success",
    "failed",
    "lost",
    "refused",
    "timeout",
    "skipped",
    "cancelled",
    "not started",
    "error",
]
"""How a run ended. An exit code does not say that: it may be the command's or our own."""


class Ending(NamedTuple):
    """The end of a run."""

    code: int
    outcome: Outcome


def code_of(error: BaseException) -> int:
    """The exit code after an error that nobody handles."""
    if isinstance(error, click.UsageError):
        return USAGE
    if isinstance(error, FencelockError):
        return UNAVAILABLE
    if isinstance(error, KeyboardInterrupt | click.Abort):
        return SIGNALLED + signal.SIGINT
    return INTERNAL


@contextmanager
def exit_on_signals() -> Iterator[None]:
    """Turn SIGTERM and SIGHUP into an exception, so that `with` blocks tidy up as after Ctrl-C."""

    def end(signum: int, frame: FrameType | None) -> NoReturn:
        sys.exit(SIGNALLED + signum)

    before = {
        each: signal.signal(each, end)
        for each in (signal.SIGTERM, signal.SIGHUP)
        if signal.getsignal(each) != signal.SIG_IGN  # nohup ignores SIGHUP: it stays ignored
    }
    try:
        yield
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)
