"""Pseudo-terminals: what a person at a keyboard would see and type."""

from __future__ import annotations

import os
import pty
import select
import subprocess
import sys
import termios
from pathlib import Path
from typing import Self

from fencelock.io.clock import now
from tests.cli.conftest import Cli
from tests.waiting import PATIENCE, InVain

PROMPT = "ready> "


class Terminal:
    """A terminal, 100 columns wide, with one program in it."""

    def __init__(self, cli: Cli, *command: str) -> None:
        self._keyboard, other = pty.openpty()
        termios.tcsetwinsize(other, (30, 100))
        self._process = subprocess.Popen(
            ["setsid", "--ctty", *command],
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
        os.close(self._keyboard)  # hangs up
        self._process.kill()
        self._process.wait()

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
        self._shown += data.decode(errors="replace").replace("\r\n", "\n")
        return True


def on_a_terminal(cli: Cli, *words: str) -> str:
    """Run `fencelock` on a terminal; what is shown there."""
    with Terminal(cli, sys.executable, "-m", "fencelock", *words) as terminal:
        return terminal.rest()


def shell(cli: Cli, folder: Path) -> Terminal:
    """An interactive shell in which `fencelock` is the command under test."""
    script = folder / "fencelock"
    script.write_text(f'#!/bin/sh\nexec {sys.executable} -m fencelock "$@"\n')
    script.chmod(0o700)
    cli.environment["PATH"] = f"{folder}:{cli.environment['PATH']}"
    terminal = Terminal(cli, "bash", "--norc", "--noprofile", "--noediting", "-i")
    terminal.expect(PROMPT)
    return terminal
