"""The lock file: one connection, one transaction at a time, and what can go wrong with it."""

from __future__ import annotations

import math
import os
import threading
import time
import weakref
from collections.abc import Callable
from random import random
from typing import Any, TypeVar

import apsw

from fencelock.core.errors import EngineError, FencelockError
from fencelock.core.ticket import Ticket
from fencelock.engines.contract import REENTERED
from fencelock.engines.sqlite.opening import connect, make_file
from fencelock.engines.sqlite.pipes import Pipes
from fencelock.engines.sqlite.queue import Queues
from fencelock.engines.sqlite.troubles import translated
from fencelock.engines.sqlite.undisputed import Execute
from fencelock.io import clock

T = TypeVar("T")

WRITE = "BEGIN IMMEDIATE"
READ = "BEGIN"

# Others hold the write lock for some ten microseconds: look again soon, then less and less often.
_PAUSE_LEAST = 20e-6
_PAUSE_MOST = 1e-3

_CHECK_EVERY = 0.1
"""Seconds after which a request looks whether the file is still the same."""

_FORK_PATIENCE = 5.0
"""Seconds a fork waits for the transactions of other threads."""


class File:
    """Runs transactions for all threads of a client, one after the other.

    One connection is enough, because SQLite lets one transaction write at a time: threads line up
    for a mutex here, which is fairer and cheaper than meeting at the file.
    """

    def __init__(self, path: str, pipes: Pipes) -> None:
        self._path = path
        self._pipes = pipes
        # Re-entrant, so that a signal handler or a finalizer that calls in the middle of a
        # transaction is refused at once instead of waiting for itself.
        self._mutex = threading.RLock()
        self._inside = False
        self._deadline = 0.0
        self._connection: apsw.Connection | None = None
        self._execute: Execute = _closed
        self._queues = Queues(_closed)
        self._identity: tuple[int, int] | None = None
        self._check_at = -math.inf
        with _forking:
            _files.add(self)

    def at_once(
        self, act: Callable[[Execute, Ticket, int], T], ticket: Ticket, deadline: float
    ) -> T | None:
        """Act with one statement, which is a transaction by itself and wakes nobody. None: the file is busy.

        It is not waited for here, because the statement is told the time: one that comes to it late
        would write down a ticket that has expired.
        """
        name = ticket.name
        try:
            # In the `try`, so that an interruption at any point gives the mutex back.
            if not self._mutex.acquire(blocking=False):
                self._line_up(deadline, name)
            if self._inside:
                raise EngineError(REENTERED, outcome="not applied", name=name)
            acting = False
            try:
                self._inside = True
                now = clock.now()
                if now >= self._check_at:
                    self._deadline = deadline
                    self._check(now)
                    now = clock.now()
                self._deadline = -math.inf
                acting = True
                return act(self._execute, ticket, int(now * 1e6))
            except apsw.BusyError:
                return None
            except (apsw.Error, OSError) as error:
                self._abort(broken=True)
                raise translated(error, self._path, name, committing=acting) from error
            except FencelockError as error:
                error.name = name
                raise
            finally:
                self._inside = False
        finally:
            try:  # noqa: SIM105 - every request comes along here
                self._mutex.release()
            except RuntimeError:
                pass  # it was never acquired

    def transact(
        self, begin: str, deadline: float, name: str | None, act: Callable[..., T], *args: Any
    ) -> T:
        """Act in a transaction, then wake those it concerns; an `EngineError` when that fails."""
        try:
            # In the `try`, so that an interruption at any point gives the mutex back.
            if not self._mutex.acquire(blocking=False):
                self._line_up(deadline, name)
            if self._inside:
                raise EngineError(REENTERED, outcome="not applied", name=name)
            committing = False
            try:
                self._inside = True
                now = clock.now()
                self._deadline = deadline
                if now >= self._check_at:
                    self._check(now)
                self._execute(begin)
                result: T = act(self._queues, *args)
                committing = True
                self._execute("COMMIT")
            except (apsw.Error, OSError) as error:
                self._abort(broken=not isinstance(error, apsw.BusyError))
                raise translated(error, self._path, name, committing=committing) from error
            except BaseException as error:
                if committing and not self._in_transaction():
                    # Interrupted just behind the commit: those it concerns must hear of it.
                    self._pipes.ring(self._queues.wakes)
                self._abort(broken=False)
                if isinstance(error, FencelockError) and error.name is None:
                    error.name = name
                raise
            finally:
                self._inside = False
            wakes = self._queues.wakes
            if wakes:
                self._queues.wakes = []
        finally:
            try:  # noqa: SIM105 - every request comes along here
                self._mutex.release()
            except RuntimeError:
                pass  # it was never acquired
        if wakes:
            self._pipes.ring(wakes)
        return result

    def sync(self, name: str) -> None:
        """Have what was committed on the disk, where a power cut can't take it back.

        After the commit and without the mutex, so that nobody who wants a lock waits for the disk. To
        close a descriptor of the log does no harm: SQLite's locks are on the other files.
        """
        try:
            log = os.open(f"{self._path}-wal", os.O_RDONLY | os.O_CLOEXEC)
            try:
                os.fsync(log)
            finally:
                os.close(log)
        except OSError as error:
            raise translated(error, self._path, name, committing=True) from error

    def close(self) -> None:
        """Give back the connection; the next transaction would open it again."""
        with self._mutex:
            self._drop()

    def _line_up(self, deadline: float, name: str | None) -> None:
        if not self._mutex.acquire(timeout=max(0.0, deadline - clock.now())):
            busy = apsw.BusyError("another thread of this process is still waiting for the file")
            raise translated(busy, self._path, name) from busy

    def _check(self, now: float) -> None:
        """Have the file open that bears the name.

        Someone may have removed it, or put another one in its place. To go on with the old one
        would be to lock what nobody else looks at.
        """
        if self._connection is None or _identity(self._path) != self._identity:
            self._open()
        self._check_at = now + _CHECK_EVERY

    def _open(self) -> None:
        self._drop()
        # One file must not go by two names: its neighbours are named after it.
        self._path = self._pipes.path = os.path.realpath(self._path)
        if self._path in _unusable:
            raise EngineError(
                f"{self._path} can't be used in this process: it was forked in the middle of a "
                "transaction. Start the process anew (multiprocessing: 'spawn')",
                outcome="not applied",
            )
        make_file(self._path)
        self._identity = _identity(self._path)
        connection = connect(self._path, self._wait)
        self._execute = connection.cursor().execute
        self._queues = Queues(self._execute)
        self._connection = connection  # last: an interruption leaves none, or one that is ready

    def _wait(self, tries: int) -> bool:
        """SQLite's busy handler: whether to try again, after a pause."""
        left = self._deadline - clock.now()
        if left <= 0:
            return False
        pause = min(_PAUSE_LEAST * 1.5 ** min(tries, 20), _PAUSE_MOST)
        time.sleep(min(left, pause * (0.5 + random())))
        return True

    def _abort(self, *, broken: bool) -> None:
        """Leave no transaction behind; after a failure of the file, not even a connection."""
        self._queues.wakes.clear()
        try:
            if self._in_transaction():
                self._execute("ROLLBACK")
        except apsw.Error:
            broken = True
        if broken:
            self._drop()

    def _in_transaction(self) -> bool:
        return self._connection is not None and self._connection.in_transaction

    def _drop(self) -> None:
        connection, self._connection = self._connection, None
        self._execute = _closed
        self._check_at = -math.inf
        if connection is not None:
            connection.close(True)

    # --- fork: SQLite must have nothing open then, or the child inherits locks it does not have

    def prepare_fork(self) -> bool:
        """Close the connection and keep it closed until the fork is done. False: can't."""
        if not self._mutex.acquire(timeout=_FORK_PATIENCE):
            return False
        if self._inside:
            self._mutex.release()
            return False
        self._drop()
        return True

    def end_fork(self) -> None:
        self._mutex.release()

    def forget_connection(self) -> None:
        """In the child of a fork that could not wait: what is open is the parent's."""
        _unusable[self._path] = self._connection
        self._connection = None
        self._check_at = -math.inf


def _identity(path: str) -> tuple[int, int] | None:
    try:
        stat = os.stat(path)
    except FileNotFoundError:
        return None
    return stat.st_dev, stat.st_ino


def _closed(*_: object) -> Any:
    raise AssertionError("no connection")


_files: weakref.WeakSet[File] = weakref.WeakSet()
_forking = threading.Lock()  # held while a fork is under way
_ready: list[File] = []
_late: list[File] = []
# By path; the connections stay referenced, so that they are never closed here.
_unusable: dict[str, apsw.Connection | None] = {}


def _before_fork() -> None:
    _forking.acquire()
    for file in list(_files):
        (_ready if file.prepare_fork() else _late).append(file)


def _after_fork_in_parent() -> None:
    while _ready:
        _ready.pop().end_fork()
    _late.clear()
    _forking.release()


def _after_fork_in_child() -> None:
    for file in _late:
        file.forget_connection()
    _after_fork_in_parent()


os.register_at_fork(
    before=_before_fork,
    after_in_parent=_after_fork_in_parent,
    after_in_child=_after_fork_in_child,
)
