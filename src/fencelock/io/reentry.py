"""Whether a thread would wait for itself: the only use of a private name of `threading.RLock`."""

from __future__ import annotations

import threading
from collections.abc import Callable


def ownership_test(mutex: threading.RLock) -> Callable[[], bool]:
    """A function that says whether the calling thread holds this mutex.

    A signal handler or a finalizer can run in the middle of any step of its thread. It asks this before it
    enters a section that must not be entered twice. Python has no public name for the question. It is the
    method that `threading.Condition` uses; `tests/io/test_reentry.py` fails if Python changes it.
    """
    test: Callable[[], bool] = mutex._is_owned  # type: ignore[attr-defined]
    return test
