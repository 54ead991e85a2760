"""Lending the terminal to a command that runs in a process group of its own.

The command has its own group so that a signal reaches it and all it started, and nobody else. The
price is that the kernel takes it for a background job: it is stopped when it touches the terminal.
So whoever watches over it does what a shell does: when that happens, and the terminal is ours to
give, the command gets it and goes on. Programs that never ask for the terminal leave it where it is,
for example with a pager at the other end of a pipe.
"""

from __future__ import annotations

import os
import signal

TOUCHED = (signal.SIGTTIN, signal.SIGTTOU)
"""What the kernel stops a background job with when it reads from or sets up the terminal."""


class Terminal:
    """The controlling terminal, if there is one, and the process group whose it is to give."""

    def __init__(self, lender: int) -> None:
        self._lender = lender
        self._asked = False
        try:
            self._fd = os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY | os.O_CLOEXEC)
        except OSError:
            self._fd = -1

    def __bool__(self) -> bool:
        return self._fd >= 0

    def asked(self) -> None:
        """Remember that the borrower wants the terminal, for when it can be had."""
        self._asked = True

    def lend(self, borrower: int) -> bool:
        """Give the terminal to the borrower if it asked for it; False if it is not ours to give."""
        return self._asked and self._pass(self._lender, borrower)

    def take_back(self, borrower: int) -> None:
        """Give the terminal back to the lender if the borrower has it."""
        self._pass(borrower, self._lender)

    def _pass(self, giver: int, taker: int) -> bool:
        if self._fd < 0:
            return False
        # Passing it from the background is itself something the kernel would stop us for.
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
