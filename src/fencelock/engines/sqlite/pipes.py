"""Wake-ups between processes: named pipes in a folder beside the lock file.

A waiting ticket's row says which pipe it listens to. Whoever admits it writes there after the
commit, and the waiter needs no look at the file to know its fence. Pipes rather than sockets: they
have no limit on the length of a path, they hold thousands of messages, and a dead one tells.
"""

from __future__ import annotations

import errno
import os
import select
import stat
import struct
import threading
import time
import weakref
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from fencelock.engines.sqlite.holding import Wake
from fencelock.io.process import Origin

_MESSAGE = struct.Struct("<Qqq")
LOOK = 0
ADMITTED = 1
ABANDONED = 2  # admitted, and the last holder did not release

_YOUNG = 10.0
"""Seconds for which nobody removes a pipe: its maker may not have opened it yet."""


class Message(NamedTuple):
    """What a pipe carries."""

    number: int
    """Which of those who listen there is meant."""
    fence: int
    meaning: int


class Pipe:
    """One named pipe, open for reading."""

    __slots__ = ("_mutex", "_open", "fd", "name", "poll")

    def __init__(self, name: str, fd: int) -> None:
        self.name = name
        self.fd = fd
        # Re-entrant: a signal handler may do the one in the middle of the other.
        self._mutex = threading.RLock()
        self._open = True
        self.poll = select.poll()
        self.poll.register(fd, select.POLLIN)

    def read(self) -> list[Message]:
        """All messages that have come."""
        try:
            data = os.read(self.fd, 65_536)
        except BlockingIOError:
            return []
        whole = len(data) - len(data) % _MESSAGE.size
        return [Message(*fields) for fields in _MESSAGE.iter_unpack(data[:whole])]

    def nudge(self, number: int) -> None:
        """Make one of our own look again. Called from any thread, also when it is too late."""
        with self._mutex, suppress(BlockingIOError):  # a full pipe has enough to read
            if self._open:
                os.write(self.fd, _MESSAGE.pack(number, 0, LOOK))

    def close(self) -> None:
        """Never in the middle of a nudge: the descriptor may be another file's a moment later."""
        with self._mutex:
            self._open = False
            os.close(self.fd)


class Pipes:
    """The pipes of one client, in the folder that it shares with the others."""

    def __init__(self, path: str) -> None:
        self.path = path
        # A program that ends without close() leaves no pipes either; a forked child does nothing.
        self._open: dict[Pipe, str] = {}
        weakref.finalize(self, _remove_all, self._open, Origin())

    def make(self) -> Pipe:
        """A new pipe, with the rights of the lock file: who may use that may wake."""
        rights = os.stat(self.path)
        mode = stat.S_IMODE(rights.st_mode) & 0o666
        folder = self._place("")
        if not os.path.isdir(folder):
            with suppress(FileExistsError):
                Path(folder).mkdir(mode=0o700)
                _adapt(folder, mode | mode >> 2 & 0o111, rights)
        if not self._open:
            self.sweep()
        name = os.urandom(8).hex()
        place = self._place(name)
        os.mkfifo(place, 0o600)
        _adapt(place, mode, rights)
        # Also for writing: a pipe that no one has open for writing looks ready to be read.
        pipe = Pipe(name, os.open(place, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC))
        self._open[pipe] = place
        return pipe

    def reachable(self, pipe: Pipe) -> bool:
        """Whether others can find it: something may have cleaned the folder."""
        return os.path.lexists(self._place(pipe.name))

    def remove(self, pipe: Pipe) -> None:
        """Close a pipe and delete it."""
        _remove(pipe, self._open.pop(pipe))

    def ring(self, wakes: list[Wake]) -> None:
        """Tell those who wait. What can't be delivered is not missed: waiters look by themselves."""
        for wake in wakes:
            name, _, number = wake.address.partition(":")
            meaning = (ABANDONED if wake.abandoned else ADMITTED) if wake.admitted else LOOK
            if name.isalnum() and number.isdigit():
                self._write(name, _MESSAGE.pack(int(number), wake.fence, meaning))

    def sweep(self) -> None:
        """Delete the pipes of processes that are dead."""
        oldest = time.time() - _YOUNG
        for name in os.listdir(self._place("")):
            with suppress(FileNotFoundError):  # another one was quicker
                if os.lstat(self._place(name)).st_mtime < oldest:
                    self._write(name, b"")

    def _place(self, name: str) -> str:
        return f"{self.path}-wake/{name}"

    def _write(self, name: str, message: bytes) -> None:
        place = self._place(name)
        try:
            fd = os.open(place, os.O_WRONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
        except OSError as error:
            if error.errno == errno.ENXIO:  # nobody reads, nobody will
                _unlink(place)
            return
        try:
            if stat.S_ISFIFO(os.fstat(fd).st_mode):
                os.write(fd, message)
        except OSError:
            pass  # it is full, or was closed just now
        finally:
            os.close(fd)


def _adapt(place: str, mode: int, rights: os.stat_result) -> None:
    os.chmod(place, mode)
    if os.geteuid() == 0:
        os.chown(place, rights.st_uid, rights.st_gid)


def _remove(pipe: Pipe, place: str) -> None:
    pipe.close()
    _unlink(place)


def _unlink(place: str) -> None:
    with suppress(OSError):  # it is gone already, or belongs to someone else
        Path(place).unlink()


def _remove_all(pipes: dict[Pipe, str], origin: Origin) -> None:
    if origin.here:
        for pipe, place in pipes.items():
            _remove(pipe, place)
