"""Commands that have something to tidy up, however they end."""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import NoReturn

from fencelock.cli import exits

_ENDING = (signal.SIGTERM, signal.SIGHUP)


@contextmanager
def terminable() -> Iterator[None]:
    """Turn a request to end into an exception, so that everything is tidied up as after Ctrl-C."""

    def end(signum: int, frame: FrameType | None) -> NoReturn:
        sys.exit(exits.SIGNALLED + signum)

    # What is ignored, as by nohup, stays so.
    heard = [each for each in _ENDING if signal.getsignal(each) != signal.SIG_IGN]
    before = {each: signal.signal(each, end) for each in heard}
    try:
        yield
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)
