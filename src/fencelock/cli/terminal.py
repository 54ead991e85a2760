"""Lending the terminal to a command that runs in a process group of its own.

The command has its own group, so that a signal reaches the command and all that it started, and nothing else.
But then the kernel treats it as a background job, and stops it when it uses the terminal. So the supervisor
does what a shell does: when the command is stopped for that reason, and the terminal is ours to give, the
supervisor gives it to the command and continues the command. A command that never uses the terminal leaves
it where it is, for example with a pager at the other end of a pipe.
"""

from __future__ import annotations

import os
import signal

TERMINAL_STOPS = (signal.SIGTTIN, signal.SIGTTOU)
"""The signals with which the kernel stops a background job that reads from or sets up the terminal."""


class Terminal:
    """The controlling terminal, if there is one, and the process group that may lend it."""

    def __init__(self, lender: int) -> None:
        self._lender = lender
        self._wanted = False
        try:
            self._fd = os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY | os.O_CLOEXEC)
        except OSError:
            self._fd = -1

    def __bool__(self) -> bool:
        return self._fd >= 0

    def lend(self, borrower: int, *, wanted: bool = False) -> bool:
        """Give the terminal to the borrower if it wants it, now or earlier. Returns whether it was given."""
        self._wanted |= wanted
        return self._wanted and self._pass(self._lender, borrower)

    def take_back(self, borrower: int) -> None:
        """Give the terminal back to the lender if the borrower has it."""
        self._pass(borrower, self._lender)

    def _pass(self, giver: int, taker: int) -> bool:
        if self._fd < 0:
            return False
        # The kernel stops a background process also for this call, unless SIGTTOU is blocked.
        before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTTOU})
        try:
            if os.tcgetpgrp(self._fd) != giver:
                return False
            os.tcsetpgrp(self._fd, taker)
            return True
        except OSError:  # the terminal was hung up, or the group is gone
            return False
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
