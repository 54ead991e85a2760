"""The demo's last scene: a stopped holder wakes up and writes, where a guard is and where none is."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

from fencelock.cli.demo.director import NoProgress, wait_until_stopped
from fencelock.cli.demo.verdict import Check

FIRST, SECOND = 1, 10
"""What each of the two pays in."""

_BALANCE = 100
_TTL = 1.5
_PATIENCE = 30.0


class Ending(NamedTuple):
    """What came of it."""

    plain: int
    guarded: int
    refused: str
    """What the one that was stopped was told by the guard; empty if nothing."""

    def lines(self) -> list[str]:
        """The story, for people."""
        lost = f": {SECOND} have vanished" if self.plain == _BALANCE + FIRST else ""
        return [
            f"an account holds {_BALANCE}; one process reads it and is stopped past its ttl",
            f"another one has the lock and pays in {SECOND}",
            f"the first one wakes up and pays in {FIRST}, to what it had read",
            f"an account without a guard then holds {self.plain}{lost}",
            f"an account with a guard then holds {self.guarded}{self.refused and f': {self.refused}'}",
        ]

    def checks(self) -> list[Check]:
        """What must hold of it."""
        return [
            Check("the guard refused the stale write", "" if self.refused else "it was accepted"),
            Check(
                "the guarded account kept what was paid in",
                "" if self.guarded == _BALANCE + SECOND else f"it holds {self.guarded}",
            ),
        ]


def play(url: str, folder: Path) -> Ending:
    """Let it happen."""
    plain, guarded = folder / "plain", folder / "guarded"
    for account in (plain, guarded):
        account.write_text(str(_BALANCE))
    command = [sys.executable, "-m", "fencelock.cli.demo.teller", url, str(plain), str(guarded)]
    first = _start(command, FIRST, "stops")
    try:
        wait_until_stopped(first.pid)
        second = _start(command, SECOND)
        try:
            _end(second)
        finally:
            second.kill()
            second.communicate()
        first.send_signal(signal.SIGCONT)
        told = _end(first)
    finally:
        first.kill()
        first.communicate()
    return Ending(int(plain.read_text()), int(guarded.read_text()), told["refused"])


def _start(command: list[str], amount: int, *more: str) -> subprocess.Popen[str]:
    words = [*command, str(amount), str(_TTL), str(os.getpid()), *more]
    return subprocess.Popen(words, stdout=subprocess.PIPE, text=True, encoding="utf-8")


def _end(process: subprocess.Popen[str]) -> dict[str, str]:
    try:
        said, _ = process.communicate(timeout=_PATIENCE)
        told: dict[str, str] = json.loads(said)
    except (subprocess.TimeoutExpired, ValueError):
        raise NoProgress("one who was to pay in did not come to an end") from None
    return told
