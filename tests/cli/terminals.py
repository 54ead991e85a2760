"""Pseudo-terminals: what a person at a keyboard would see and type."""

from __future__ import annotations

import os
import pty
import select
import subprocess
import sys
import termios
from collections.abc import Callable
from pathlib import Path
from typing import Self, TypeVar

import pyte

from fencelock.io.clock import now
from tests.cli.conftest import Cli
from tests.waiting import PATIENCE, InVain

T = TypeVar("T")

PROMPT = "ready> "


class Terminal:
    """A terminal with one program in it."""

    def __init__(self, cli: Cli, *command: str, columns: int = 100, lines: int = 30) -> None:
        self._keyboard, other = pty.openpty()
        termios.tcsetwinsize(other, (lines, columns))
        self._before = termios.tcgetattr(other)
        self._process = subprocess.Popen(
            # What we ignore, as under nohup, it would ignore too. And pytest's workers have a size of their
            # own in their environment.
            [
                "setsid",
                "--ctty",
                "env",
                "--default-signal",
                "-u",
                "COLUMNS",
                "-u",
                "LINES",
                *command,
            ],
            env=cli.environment | {"TERM": "xterm", "PS1": PROMPT, "HISTFILE": ""},
            stdin=other,
            stdout=other,
            stderr=other,
        )
        os.close(other)
        self._shown = ""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.hang_up()
        self._process.kill()
        self._process.wait()

    def hang_up(self) -> None:
        """Close the terminal, as when its window is closed."""
        if self._keyboard >= 0:
            os.close(self._keyboard)
            self._keyboard = -1

    def type(self, text: str) -> None:
        os.write(self._keyboard, text.encode())

    def expect(self, text: str, timeout: float = PATIENCE) -> str:
        """Wait until the text is shown, and return everything before it."""
        limit = now() + timeout
        while text not in self._shown:
            left = limit - now()
            if left <= 0:
                raise InVain(f"waited in vain for {text!r} after {self._shown!r}")
            self._read(left)
        before, _, self._shown = self._shown.partition(text)
        return before

    @property
    def set_up_as_before(self) -> bool:
        """Whether the terminal is set up as it was before the program started."""
        return termios.tcgetattr(self._keyboard) == self._before

    def foreground(self) -> int:
        """The process group that gets what is typed."""
        return os.tcgetpgrp(self._keyboard)

    def rest(self) -> str:
        """All that is shown until the program ends."""
        try:
            while True:
                if not self._read(PATIENCE):
                    raise InVain(f"waited in vain for the end after {self._shown!r}")
        except OSError:  # Linux's way to say that the other side is closed
            return self._shown

    def _read(self, timeout: float) -> bool:
        if not select.select([self._keyboard], [], [], timeout)[0]:
            return False
        data = os.read(self._keyboard, 65536)
        self._feed(data)
        return True

    def _feed(self, data: bytes) -> None:
        self._shown += data.decode(errors="replace").replace("\r\n", "\n")


class Emulator(Terminal):
    """A terminal that knows what is on its screen: `fencelock` runs in it and draws pictures."""

    def __init__(self, cli: Cli, *words: str, columns: int = 80, lines: int = 24) -> None:
        self._screen = pyte.Screen(columns, lines)
        self._stream = pyte.ByteStream(self._screen)
        command = [sys.executable, "-m", "fencelock", *words]
        super().__init__(cli, *command, columns=columns, lines=lines)

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def lines(self) -> list[str]:
        """What is on the screen."""
        return [line.rstrip() for line in self._screen.display]

    @property
    def picture(self) -> str:
        return "\n".join(self.lines)

    @property
    def restored(self) -> bool:
        """Whether the terminal is as it was: its settings, its screen and its cursor."""
        last = [self._shown.rfind(f"\x1b[?{mode}") for mode in ("1049h", "1049l", "25h", "7h")]
        return self.set_up_as_before and min(last[1:]) > last[0]

    @property
    def colours(self) -> set[str]:
        """All colours on the screen."""
        cells = [cell for line in self._screen.buffer.values() for cell in line.values()]
        return {cell.fg for cell in cells} | {cell.bg for cell in cells}

    @property
    def reversed_lines(self) -> list[int]:
        """The lines that are in reverse."""
        return [number for number, line in self._screen.buffer.items() if line[0].reverse]

    def until(self, condition: Callable[[Self], T], what: str) -> T:
        """Wait until the screen fulfils a condition, and return what the condition returns."""
        limit = now() + PATIENCE
        while not (value := condition(self)):
            if now() > limit:
                raise InVain(f"waited in vain for {what}:\n{self.picture}")
            self._read(0.1)
        return value

    def see(self, text: str) -> None:
        """Wait until a text is on the screen."""
        self.until(lambda terminal: text in terminal.picture, repr(text))

    def not_see(self, text: str) -> None:
        """Wait until a text is not on the screen any more."""
        self.until(lambda terminal: text not in terminal.picture, f"the end of {text!r}")

    def erase(self) -> None:
        """Clear the screen, as another program would that writes to it."""
        self._screen.erase_in_display(2)

    def resize(self, columns: int, lines: int) -> None:
        """Change the size, and clear the screen. The kernel tells the program, which must draw it anew."""
        self._screen.resize(lines, columns)
        self.erase()
        termios.tcsetwinsize(self._keyboard, (lines, columns))

    def ended(self) -> int:
        """Wait for the end of the program, and return its exit code."""
        self.rest()
        return self.exit_code()

    def exit_code(self) -> int:
        return self._process.wait(PATIENCE)

    def _feed(self, data: bytes) -> None:
        super()._feed(data)
        self._stream.feed(data)


def on_a_terminal(cli: Cli, *words: str) -> str:
    """Run `fencelock` on a terminal; what is shown there."""
    with Terminal(cli, sys.executable, "-m", "fencelock", *words) as terminal:
        return terminal.rest()


def command_in(cli: Cli, folder: Path) -> None:
    """Put a `fencelock` that is the command under test onto the PATH."""
    script = folder / "fencelock"
    script.write_text(f'#!/bin/sh\nexec {sys.executable} -m fencelock "$@"\n')
    script.chmod(0o700)
    cli.environment["PATH"] = f"{folder}:{cli.environment['PATH']}"


def shell(cli: Cli, folder: Path) -> Terminal:
    """An interactive shell in which `fencelock` is the command under test."""
    command_in(cli, folder)
    terminal = Terminal(cli, "bash", "--norc", "--noprofile", "--noediting", "-i")
    terminal.expect(PROMPT)
    return terminal
