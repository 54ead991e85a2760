"""Asking the kernel to end a process together with the one that started it."""

from __future__ import annotations

import ctypes
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1


def die_with_parent(parent: int) -> None:
    """From now on, be killed when the parent dies, however it dies. Only Linux can do that."""
    if sys.platform != "linux":
        return
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL))
    if os.getppid() != parent:  # it died before the kernel knew
        os.kill(os.getpid(), signal.SIGKILL)
