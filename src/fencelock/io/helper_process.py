"""What the helper processes of the commands and of torture have in common."""

from __future__ import annotations

import ctypes
import logging
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1


def leave_ctrl_c_to_parent() -> None:
    """Ignore Ctrl-C, which reaches every process at a terminal: the parent decides what follows.

    The parent also reports what goes wrong: warnings of the library are not printed.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    logging.getLogger("fencelock").addHandler(logging.NullHandler())


def die_with_parent(parent: int) -> None:
    """Let the kernel kill this process when its parent dies, however it dies. Only Linux can do that."""
    if sys.platform != "linux":
        return
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL))
    if os.getppid() != parent:  # it died before the kernel knew
        os.kill(os.getpid(), signal.SIGKILL)
