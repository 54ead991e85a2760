"""Wake-ups between processes: named pipes in a folder beside the lock file.

The row of a waiting ticket has the address at which its client listens: a pipe, and a number. The client that
admits the ticket writes a message there after its commit. The message carries the fence, so the waiter need
not look at the file. Pipes are better here than sockets: their paths may be long, they hold thousands of
messages, and a writer notices when nobody reads.
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

from fencelock.engines.sqlite.admission import WakeUp
from fencelock.io.process import Origin

_MESSAGE = struct.Struct("<Qqq")

LOOK = 0
"""Ask the engine again."""
ADMITTED = 1
"""The ticket holds."""
ABANDONED = 2
"""The ticket holds, and the last holder did not release."""

_NEW_PIPE_GRACE = 10.0
"""Seconds for which no client removes a new pipe: its maker may not have opened it yet."""


class Message(NamedTuple):
    """What a pipe carries."""

    number: int
    """The number of the ticket among those that listen at this pipe."""
    fence: int
    meaning: int


class Pipe:
    """One named pipe, open for reading."""

    __slots__ = ("_mutex", "_open", "fd", "name", "poll")

    def __init__(self, name: str, fd: int) -> None:
        self.name = name
        self.fd = fd
        # Re-entrant: a signal handler may interrupt `look_again` and call `close`, or the other way round.
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

    def look_again(self, number: int) -> None:
        """Make a ticket of this client ask the engine again. From any thread, also after `close`."""
        with self._mutex, suppress(BlockingIOError):  # a full pipe has enough to read
            if self._open:
                os.write(self.fd, _MESSAGE.pack(number, 0, LOOK))

    def close(self) -> None:
        """Never in the middle of `look_again`: the descriptor may be another file's a moment later."""
        with self._mutex:
            self._open = False
            os.close(self.fd)


class Pipes:
    """The pipes of one client, in the folder that it shares with the other clients of the file."""

    def __init__(self, path: str) -> None:
        self.path = path
        # A program that ends without close() leaves no pipes either. A forked child removes none.
        self._open: dict[Pipe, str] = {}
        weakref.finalize(self, _remove_all, self._open, Origin())

    def make(self) -> Pipe:
        """A new pipe with the rights of the lock file: a client that may use the file may wake."""
        rights = os.stat(self.path)
        mode = stat.S_IMODE(rights.st_mode) & 0o666
        folder = self._path_of("")
        if not os.path.isdir(folder):
            with suppress(FileExistsError):
                Path(folder).mkdir(mode=0o700)
                _set_rights(folder, mode | mode >> 2 & 0o111, rights)
        if not self._open:
            self.sweep()
        name = os.urandom(8).hex()
        path = self._path_of(name)
        os.mkfifo(path, 0o600)
        _set_rights(path, mode, rights)
        # Also open for writing: a pipe that nobody has open for writing always looks ready to be read.
        pipe = Pipe(name, os.open(path, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC))
        self._open[pipe] = path
        return pipe

    def reachable(self, pipe: Pipe) -> bool:
        """Whether other clients can find the pipe. Another program may have cleaned the folder."""
        return os.path.lexists(self._path_of(pipe.name))

    def remove(self, pipe: Pipe) -> None:
        """Close a pipe and delete it."""
        _remove(pipe, self._open.pop(pipe))

    def send(self, wake_ups: list[WakeUp]) -> None:
        """Send the messages. A message that is not delivered does no harm: waiters also ask on their own."""
        for wake_up in wake_ups:
            name, _, number = wake_up.address.partition(":")
            meaning = (ABANDONED if wake_up.abandoned else ADMITTED) if wake_up.admitted else LOOK
            if name.isalnum() and number.isdigit():
                self._write(name, _MESSAGE.pack(int(number), wake_up.fence, meaning))

    def sweep(self) -> None:
        """Delete the pipes of dead processes."""
        oldest = time.time() - _NEW_PIPE_GRACE
        for name in os.listdir(self._path_of("")):
            with suppress(FileNotFoundError):  # another client has deleted it just now
                if os.lstat(self._path_of(name)).st_mtime < oldest:
                    self._write(name, b"")

    def _path_of(self, name: str) -> str:
        return f"{self.path}-wake/{name}"

    def _write(self, name: str, message: bytes) -> None:
        path = self._path_of(name)
        try:
            fd = os.open(path, os.O_WRONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
        except OSError as error:
            if error.errno == errno.ENXIO:  # its process is dead: nobody reads it, or ever will
                _unlink(path)
            return
        try:
            if stat.S_ISFIFO(os.fstat(fd).st_mode):
                os.write(fd, message)
        except OSError:
            pass  # it is full, or was closed just now
        finally:
            os.close(fd)


def _set_rights(path: str, mode: int, rights: os.stat_result) -> None:
    os.chmod(path, mode)
    if os.geteuid() == 0:
        os.chown(path, rights.st_uid, rights.st_gid)


def _remove(pipe: Pipe, path: str) -> None:
    pipe.close()
    _unlink(path)


def _unlink(path: str) -> None:
    with suppress(OSError):  # it is gone already, or belongs to another user
        Path(path).unlink()


def _remove_all(pipes: dict[Pipe, str], origin: Origin) -> None:
    if origin.here:
        for pipe, path in pipes.items():
            _remove(pipe, path)
