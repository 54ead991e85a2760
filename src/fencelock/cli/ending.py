"""Commands that have something to tidy up, however they end."""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import NoReturn

from fencelock.cli import exits


@contextmanager
def terminable() -> Iterator[None]:
    """Turn a request to end into an exception, so that everything is tidied up as after Ctrl-C."""

    def end(signum: int, frame: FrameType | None) -> NoReturn:
        sys.exit(exits.SIGNALLED + signum)

    before = {each: signal.signal(each, end) for each in (signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)
