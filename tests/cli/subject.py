"""A command for `fencelock run` that has a child of its own, tells which signals they get, and
writes down how long they lived.

    python subject.py FOLDER [DEAF…]

Both processes belong to one group. Each prints "ROLE SIGNAL" for each signal, and writes the time
to FOLDER/ROLE again and again. SIGTERM ends them, except for the roles that are deaf.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path
from types import FrameType

from fencelock.io.clock import now

SIGNALS = ("SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT", "SIGUSR1", "SIGUSR2")
BEAT = "{:020.6f}"


def last_beat(folder: Path) -> float:
    """When the last of them was last seen alive."""
    return max(float((folder / role).read_text()) for role in ("parent", "child"))


def live(folder: str, *deaf: str) -> None:
    reading, writing = os.pipe()
    child = os.fork()
    role = "parent" if child else "child"

    def got(signum: int, frame: FrameType | None) -> None:
        _say(f"{role} {signal.Signals(signum).name}")
        if signum == signal.SIGTERM and role not in deaf:
            os._exit(3)

    for each in SIGNALS:
        signal.signal(getattr(signal, each), got)
    journal = os.open(Path(folder) / role, os.O_CREAT | os.O_WRONLY)
    os.pwrite(journal, BEAT.format(now()).encode(), 0)
    if child:
        os.read(reading, 1)  # the child is ready too
        _say("started")
    else:
        os.write(writing, b".")
    while True:
        os.pwrite(journal, BEAT.format(now()).encode(), 0)
        time.sleep(0.005)


def _say(line: str) -> None:
    os.write(1, f"{line}\n".encode())  # print() is not made for signal handlers


if __name__ == "__main__":
    live(*sys.argv[1:])
