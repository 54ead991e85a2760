"""The last part of the demo: a stopped holder goes on and writes, to storage with and without a guard."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

from fencelock.cli.demo.checks import Check
from fencelock.cli.demo.runner import NoProgress, wait_until_stopped

FIRST, SECOND = 1, 10
"""The amounts that the two processes pay in."""

_BALANCE = 100
_TTL = 1.5
_TIMEOUT = 30.0
"""Seconds in which each process must end. Generous, because the machine may be busy."""


class StaleWrite(NamedTuple):
    """The balances at the end."""

    plain: int
    guarded: int
    refused: str
    """What the guard answered to the stopped process; empty if it accepted the write."""

    def lines(self) -> list[str]:
        """What happened, as text."""
        lost = f": {SECOND} are lost" if self.plain == _BALANCE + FIRST else ""
        return [
            f"an account holds {_BALANCE}; one process reads it and is stopped past its ttl",
            f"a second process gets the lock and pays in {SECOND}",
            f"the first process goes on, and adds {FIRST} to the balance that it had read",
            f"without a guard, the account then holds {self.plain}{lost}",
            f"with a guard, it holds {self.guarded}: {self.refused or 'the guard accepted the stale write'}",
        ]

    def checks(self) -> list[Check]:
        """What must be true of it."""
        return [
            Check("the guard refused the stale write", "" if self.refused else "it was accepted"),
            Check(
                "the guarded account kept the second payment",
                "" if self.guarded == _BALANCE + SECOND else f"it holds {self.guarded}",
            ),
        ]


def show_stale_write(url: str, folder: Path) -> StaleWrite:
    """Let a stopped holder write after its lease has ended."""
    plain, guarded = folder / "plain", folder / "guarded"
    for account in (plain, guarded):
        account.write_text(str(_BALANCE))
    command = [sys.executable, "-m", "fencelock.cli.demo.payer", url, str(plain), str(guarded)]
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
        answer = _end(first)
    finally:
        first.kill()
        first.communicate()
    return StaleWrite(int(plain.read_text()), int(guarded.read_text()), answer["refused"])


def _start(command: list[str], amount: int, *more: str) -> subprocess.Popen[str]:
    arguments = [*command, str(amount), str(_TTL), str(os.getpid()), *more]
    return subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True, encoding="utf-8")


def _end(process: subprocess.Popen[str]) -> dict[str, str]:
    try:
        output, _ = process.communicate(timeout=_TIMEOUT)
        answer: dict[str, str] = json.loads(output)
    except (subprocess.TimeoutExpired, ValueError):
        raise NoProgress("a process that pays in did not end") from None
    return answer
