"""The exit codes of `fencelock`. docs/cli.md has the same table."""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import NoReturn

CONFLICT = 1
"""The lock was not free in time; `-E` chooses another code. `flock` uses 1, too."""
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
