"""The last part of the demo: a stopped holder goes on and writes, to storage with and without a guard.

Two processes pay money into two accounts: `python -m fencelock.cli.demo.stale_write` is such a process.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from fencelock.cli.demo.runner import TIMEOUT, NoProgress, wait_until_stopped
from fencelock.client import Client
from fencelock.core.errors import LeaseLost, StaleFence
from fencelock.guards.files import FencedFile
from fencelock.io.helper_process import die_with_parent, leave_ctrl_c_to_parent

FIRST, SECOND = 1, 10
"""The amounts that the two processes pay in."""

_BALANCE = 100
_TTL = 1.5


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

    def checks(self) -> dict[str, str]:
        """What must be true of it, and how it was broken; empty if it held."""
        holds = "" if self.guarded == _BALANCE + SECOND else f"it holds {self.guarded}"
        return {
            "the guard refused the stale write": "" if self.refused else "it was accepted",
            "the guarded account kept the second payment": holds,
        }


def show_stale_write(url: str, folder: Path) -> StaleWrite:
    """Let a stopped holder write after its lease has ended."""
    plain, guarded = folder / "plain", folder / "guarded"
    for account in (plain, guarded):
        account.write_text(str(_BALANCE))
    arguments = (url, str(plain), str(guarded))
    with _process(*arguments, "stops") as first:
        wait_until_stopped(first.pid)
        with _process(*arguments) as second:
            _end(second)
        first.send_signal(signal.SIGCONT)
        refused = _end(first)
    return StaleWrite(int(plain.read_text()), int(guarded.read_text()), refused)


@contextmanager
def _process(*arguments: str) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-m", __name__, str(os.getpid()), *arguments]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, encoding="utf-8") as process:
        try:
            yield process
        finally:
            process.kill()


def _end(process: subprocess.Popen[str]) -> str:
    try:
        output, _ = process.communicate(timeout=TIMEOUT)
    except subprocess.TimeoutExpired:
        output = ""
    if process.returncode != 0:
        raise NoProgress("a process that pays in did not end")
    return output.strip()


def pay(parent: str, url: str, plain: str, guarded: str, stops: str = "") -> None:
    """Pay in, under the lock, and print what the guard refused.

    With `stops`, stop at the worst moment: between reading and writing.
    """
    die_with_parent(int(parent))
    leave_ctrl_c_to_parent()
    amount = FIRST if stops else SECOND
    account = FencedFile(guarded)
    with Client(url, ttl=_TTL) as client:
        lease = client.lock("account:7", guard=account).acquire()
        balances = [int(FencedFile(path).read()) for path in (plain, guarded)]
        if stops:
            # Before the first renewal, so that no transaction on the lock file is left open.
            os.kill(os.getpid(), signal.SIGSTOP)
        Path(plain).write_text(str(balances[0] + amount))
        try:
            account.write(str(balances[1] + amount).encode(), lease)
        except StaleFence as error:
            print(f"the guard refused fence {error.given}")
        try:
            lease.release()
        except LeaseLost:
            assert stops, "only a process that was stopped can be late"


if __name__ == "__main__":
    pay(*sys.argv[1:])
