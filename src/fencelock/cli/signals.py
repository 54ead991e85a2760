"""Signals that ask a command to end."""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import NoReturn

from fencelock.cli import exits


@contextmanager
def exit_on_signals() -> Iterator[None]:
    """Turn SIGTERM and SIGHUP into an exception, so that `with` blocks tidy up as after Ctrl-C."""

    def end(signum: int, frame: FrameType | None) -> NoReturn:
        sys.exit(exits.SIGNALLED + signum)

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
