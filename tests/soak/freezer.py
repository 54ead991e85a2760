"""Stalls: freezes a whole tree of processes for a moment, as a busy host does to its virtual machines.

With a control group, which needs root, all processes stop at once, and no parent is notified. Otherwise
signals stop them one after the other, and a parent that watches its children may notice.
"""

from __future__ import annotations

import os
import random
import signal
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

import psutil

from tests.waiting import eventually

STALL_SECONDS = (0.5, 1.6)
PEACE_SECONDS = (1.0, 6.0)


class Freezer(ABC):
    """Stops a process and all its descendants, and lets them continue."""

    def adopt(self, pid: int) -> None:  # noqa: B027 - only control groups have to know before the first stall
        """Add a process that has no children yet. Its later children are included."""

    @abstractmethod
    def freeze(self, pid: int) -> None: ...

    @abstractmethod
    def thaw(self) -> None: ...

    def close(self) -> None:  # noqa: B027 - only control groups leave something behind
        """Clean up. Kills processes that have not ended."""


class Dialect(NamedTuple):
    """The files and values of one version of control groups."""

    root: Path
    switch: str
    frozen: str
    thawed: str


DIALECTS = (
    Dialect(Path("/sys/fs/cgroup"), "cgroup.freeze", "1", "0"),
    Dialect(Path("/sys/fs/cgroup/unified"), "cgroup.freeze", "1", "0"),
    Dialect(Path("/sys/fs/cgroup/freezer"), "freezer.state", "FROZEN", "THAWED"),
)


class GroupFreezer(Freezer):
    """Freezes with a control group, version 2 or version 1."""

    def __init__(self) -> None:
        self._dialect = next(dialect for dialect in DIALECTS if _usable(dialect))
        self._home = self._dialect.root / f"fencelock-soak-{os.getpid()}"
        self._home.mkdir()

    @staticmethod
    def available() -> bool:
        return any(map(_usable, DIALECTS))

    def adopt(self, pid: int) -> None:
        (self._home / "cgroup.procs").write_text(str(pid))

    def freeze(self, pid: int) -> None:
        self._turn(self._dialect.frozen)

    def thaw(self) -> None:
        self._turn(self._dialect.thawed)

    def _turn(self, state: str) -> None:
        (self._home / self._dialect.switch).write_text(state)

    def close(self) -> None:
        self.thaw()
        for word in (self._home / "cgroup.procs").read_text().split():
            with suppress(ProcessLookupError):
                os.kill(int(word), signal.SIGKILL)
        eventually(self._removed, "the processes in the control group to end")

    def _removed(self) -> bool:
        with suppress(OSError):
            self._home.rmdir()
        return not self._home.exists()


def _usable(dialect: Dialect) -> bool:
    probe = dialect.root / f"fencelock-probe-{os.getpid()}"
    try:
        probe.mkdir()
    except OSError:
        return False
    try:
        return (probe / dialect.switch).exists()
    finally:
        probe.rmdir()


class SignalFreezer(Freezer):
    """Stops and continues processes with signals. A process that a test has stopped stays stopped."""

    def __init__(self) -> None:
        self._stopped: dict[int, psutil.Process] = {}

    def freeze(self, pid: int) -> None:
        for _ in range(10):  # a process that still runs may start another one
            fresh = [process for process in _tree(pid) if process.pid not in self._stopped]
            if not any(map(self._stop, fresh)):
                return

    def _stop(self, process: psutil.Process) -> bool:
        with suppress(psutil.NoSuchProcess):
            if process.status() not in (psutil.STATUS_STOPPED, psutil.STATUS_ZOMBIE):
                process.suspend()
                self._stopped[process.pid] = process
                return True
        return False

    def thaw(self) -> None:
        for process in self._stopped.values():
            with suppress(psutil.NoSuchProcess):
                process.resume()
        self._stopped.clear()


def _tree(pid: int) -> list[psutil.Process]:
    """The process and all its descendants, parents first: a stopped parent starts no more children."""
    with suppress(psutil.NoSuchProcess):
        top = psutil.Process(pid)
        return [top, *top.children(recursive=True)]
    return []


def best_freezer() -> Freezer:
    return GroupFreezer() if GroupFreezer.available() else SignalFreezer()


@contextmanager
def stalls(freezer: Freezer, pid: int, seed: int, done: list[float]) -> Iterator[None]:
    """Stall this tree of processes again and again, and append each duration to `done`."""
    chance, over = random.Random(seed), threading.Event()

    def disturb() -> None:
        while not over.wait(chance.uniform(*PEACE_SECONDS)):
            seconds = chance.uniform(*STALL_SECONDS)
            freezer.freeze(pid)
            try:
                time.sleep(seconds)
            finally:
                freezer.thaw()
            done.append(seconds)

    thread = threading.Thread(target=disturb)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
