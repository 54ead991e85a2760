"""The terminal while the view is on it: single keys, the alternate screen, and all put back at the end.

A signal only sets a flag and wakes up `wait`. So it never cuts short what sets up the terminal or puts it
back.
"""

from __future__ import annotations

import contextlib
import copy
import errno
import os
import select
import signal
import socket
import sys
import termios
from collections.abc import Sequence
from types import FrameType
from typing import Any, Self

from rich.console import Console
from rich.text import Text

from fencelock.cli import exits
from fencelock.io.clock import now

_SHOW = "\x1b[?1049h\x1b[?25l\x1b[?7l\x1b[2J"
"""The alternate screen, without a cursor. Without automatic wrapping: a line whose characters are wider than
we think must not move the next line."""
_HIDE = "\x1b[0m\x1b[?7h\x1b[?25h\x1b[?1049l"

_ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_OTHERS = (signal.SIGTSTP, signal.SIGCONT, signal.SIGWINCH)

_PLAIN = str.maketrans("█░…≥↑↓·", "#.~>^v-")
"""For terminals that are not in UTF-8."""

STANDARD_SIZE = 80, 24

_PATIENCE = 1.0
"""Seconds after which a second signal ends the program wherever it is. A terminal may take no
more output. Sooner, a second signal is only a repetition: `timeout` sends two."""


class HungUp(Exception):
    """The terminal is gone."""


class Screen:
    """The terminal as a screen of lines. Use it in the main thread, as a context manager."""

    def __init__(self) -> None:
        self._in, self._out = sys.stdin.fileno(), sys.stdout.fileno()
        self._console = Console(force_terminal=True, highlight=False, markup=False, emoji=False)
        self._shown: list[str] = []
        self._size = STANDARD_SIZE
        self._ending_since = 0.0
        self._got: set[int] = set()
        """Signals that came since the last look."""

    def __enter__(self) -> Self:
        self._before: list[Any] = termios.tcgetattr(self._in)
        # Not a pipe: a thread may still call `wake` when this is closed, and a number of a file could be
        # another file by then.
        self._woken, self._waker = socket.socketpair()
        for end in (self._woken, self._waker):
            end.setblocking(False)
        self._stderr = os.dup(2) if os.isatty(2) else None
        self._wakeup = signal.set_wakeup_fd(self._waker.fileno(), warn_on_full_buffer=False)
        self._handlers = {
            each: signal.signal(each, self._note)
            for each in (*_ENDING, *_OTHERS)
            if signal.getsignal(each) != signal.SIG_IGN  # as under nohup: it stays ignored
        }
        try:
            self._show()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._hide()
        signal.set_wakeup_fd(self._wakeup)
        for each, handler in self._handlers.items():
            signal.signal(each, handler)
        self._woken.close()
        self._waker.close()
        if self._stderr is not None:
            os.close(self._stderr)

    # --- signals

    def _note(self, signum: int, frame: FrameType | None) -> None:
        if self.ended_by is None:
            self._ending_since = now()
        elif signum in _ENDING and now() > self._ending_since + _PATIENCE:
            sys.exit(exits.SIGNALLED + signum)
        self._got.add(signum)

    @property
    def ended_by(self) -> int | None:
        """The signal that asks this program to end, if there was one."""
        return next((each for each in _ENDING if each in self._got), None)

    def wake(self) -> None:
        """Let `wait` return. Any thread may call this."""
        # It is full of bytes that wake it up, or this program ends.
        with contextlib.suppress(OSError):
            self._waker.send(b"\0")

    def wait(self, timeout: float) -> bytes:
        """Wait for keys, for `wake` or for a signal. Returns what was typed, or raises `HungUp`."""
        ready, _, _ = select.select([self._in, self._woken], [], [], timeout)
        if self._woken in ready:
            self._woken.recv(4096)
        if self.ended_by is not None:
            return (
                b""  # if the terminal was hung up, there is a SIGCONT, too, and nothing to draw on
            )
        if signal.SIGTSTP in self._got:
            self._suspend()
        if signal.SIGCONT in self._got:  # after a SIGSTOP, too, which nobody can see
            self._got.discard(signal.SIGCONT)
            self._show()
        if self._in not in ready:
            return b""
        try:
            data = os.read(self._in, 4096)
        except OSError:
            data = b""
        if not data:
            raise HungUp
        return data

    def _suspend(self) -> None:
        """Stop, as every other job does after Ctrl-Z, and go on after `fg`."""
        self._hide()
        handler = signal.signal(signal.SIGTSTP, signal.SIG_DFL)
        signal.raise_signal(signal.SIGTSTP)  # stops here
        signal.signal(signal.SIGTSTP, handler)
        self._got.discard(signal.SIGTSTP)
        self._show()

    # --- the terminal

    def _show(self) -> None:
        settings = copy.deepcopy(self._before)
        settings[0] &= ~termios.IXON  # Ctrl-S must not make us wait for Ctrl-Q
        settings[3] &= ~(termios.ICANON | termios.ECHO | termios.IEXTEN)
        settings[6][termios.VMIN], settings[6][termios.VTIME] = 1, 0
        _set(self._in, settings)
        if self._stderr is not None:  # libraries that write there would write into the picture
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, 2)
            os.close(nowhere)
        self._shown = []
        self._write(_SHOW)

    def _hide(self) -> None:
        if self._stderr is not None:
            os.dup2(self._stderr, 2)
        with contextlib.suppress(HungUp):
            self._write(_HIDE)
            _set(self._in, self._before)

    def _write(self, text: str) -> None:
        data = text.encode(sys.stdout.encoding, "replace")
        try:
            while data:
                data = data[os.write(self._out, data) :]
        except OSError:
            raise HungUp from None

    def size(self) -> tuple[int, int]:
        """The number of columns and of lines."""
        try:
            columns, lines = os.get_terminal_size(self._out)
        except OSError:
            columns, lines = 0, 0
        size = (columns, lines) if columns and lines else STANDARD_SIZE
        if size != self._size:
            self._size, self._shown = size, []
        return size

    def draw(self, lines: Sequence[Text]) -> None:
        """Show these lines. Only lines that have changed are written."""
        new = [self._rendered(line) for line in lines]
        parts = [] if self._shown else ["\x1b[2J"]
        for number, line in enumerate(new):
            if number >= len(self._shown) or self._shown[number] != line:
                parts.append(f"\x1b[{number + 1};1H\x1b[2K{line}")
        if len(new) < len(self._shown):
            parts.append(f"\x1b[{len(new) + 1};1H\x1b[J")
        self._shown = new
        if parts:
            self._write("".join(parts))

    def _rendered(self, line: Text) -> str:
        with self._console.capture() as captured:
            self._console.print(line, end="", no_wrap=True, overflow="ignore", crop=False)
        text = captured.get()
        return text if "utf" in sys.stdout.encoding.lower() else text.translate(_PLAIN)


def _set(fd: int, settings: list[Any]) -> None:
    while True:
        try:
            return termios.tcsetattr(fd, termios.TCSADRAIN, settings)
        except termios.error as error:
            # In the background, this call stops the program. SIGCONT interrupts the call.
            if error.args[0] != errno.EINTR:
                raise HungUp from None
