"""Whether a thread has interrupted itself: a private method of Python's re-entrant lock, behind one door."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def ownership(mutex: Any) -> Callable[[], bool]:
    """The function that says whether the running thread holds this `threading.RLock`.

    If it does, a signal handler or a finalizer runs in the middle of code that took the mutex. `RLock` has no
    public way to ask; `threading.Condition` uses the same method. The function itself is returned, and not
    its answer, because the hot path asks it.
    """
    owned: Callable[[], bool] = mutex._is_owned
    return owned
