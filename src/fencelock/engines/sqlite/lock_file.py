"""The lock file: one connection, one transaction at a time, and the handling of failures and forks."""

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
from fencelock.engines.contract import REENTERED
from fencelock.engines.sqlite.connect import connect, make_file
from fencelock.engines.sqlite.errors import engine_error
from fencelock.engines.sqlite.named_pipes import Pipes
from fencelock.engines.sqlite.operations import Operations
from fencelock.engines.sqlite.uncontended import Execute
from fencelock.io import clock

T = TypeVar("T")

WRITE = "BEGIN IMMEDIATE"
READ = "BEGIN"
ONE_STATEMENT = ""

# Another process holds the write lock for some ten microseconds, and the shortest sleep takes almost a
# hundred. So the first tries only let other processes run.
_YIELDS = 50

# After that the pauses grow. In seconds.
_MIN_PAUSE = 20e-6
_MAX_PAUSE = 1e-3

_CHECK_INTERVAL = 0.1
"""Seconds after which a request checks that the path still names the same file."""

_FORK_TIMEOUT = 5.0
"""Seconds for which a fork waits for the transactions of other threads."""


class LockFile:
    """Runs transactions for all threads of a client, one after the other.

    One connection is enough, because SQLite lets only one transaction write at a time. The threads wait
    for a mutex here, which is fairer and cheaper than waiting for the file.
    """

    def __init__(self, path: str, pipes: Pipes) -> None:
        self._path = path
        self._pipes = pipes
        # Re-entrant, so that a signal handler or a finalizer that calls in the middle of a
        # transaction is refused at once and does not wait for itself.
        self._mutex = threading.RLock()
        self._in_request = False
        self._deadline = 0.0
        self._connection: apsw.Connection | None = None
        self._execute: Execute = _not_connected
        self._operations = Operations(_not_connected)
        self._identity: tuple[int, int] | None = None
        self._check_at = -math.inf
        with _forking:
            _files.add(self)

    def transact(
        self, begin: str, deadline: float, name: str | None, act: Callable[..., T], *args: Any
    ) -> T:
        """Act in a transaction, then send the wake-ups. A failure becomes an `EngineError`.

        With ONE_STATEMENT instead of a `begin`, the act is a statement that is a transaction by itself and
        wakes nobody. It gets the current time as its last argument, so it does not wait for a busy file:
        after a long wait it would store a ticket that has expired already.
        """
        try:
            # Inside the `try`, so that an interruption at any point releases the mutex.
            if not self._mutex.acquire(blocking=False):
                self._wait_for_mutex(deadline, name)
            if self._in_request:
                raise EngineError(REENTERED, outcome="not applied", name=name)
            committing = False
            try:
                self._in_request = True
                now = clock.now()
                self._deadline = deadline
                if now >= self._check_at:
                    self._check(now)
                    now = clock.now()
                if not begin:
                    self._deadline = -math.inf
                    committing = True
                    return act(self._execute, *args, int(now * 1e6))
                self._execute(begin)
                result = act(self._operations, *args)
                committing = True
                self._execute("COMMIT")
            except (apsw.Error, OSError) as error:
                self._abort(broken=not isinstance(error, apsw.BusyError))
                raise engine_error(error, self._path, name, committing=committing) from error
            except BaseException as error:
                if committing and not self._in_transaction():
                    # Interrupted directly after the commit: the admitted waiters must hear of it.
                    self._pipes.send(self._operations.wake_ups)
                self._abort(broken=False)
                if isinstance(error, FencelockError) and error.name is None:
                    error.name = name
                raise
            finally:
                self._in_request = False
            wake_ups = self._operations.wake_ups
            if wake_ups:
                self._operations.wake_ups = []
        finally:
            try:  # noqa: SIM105 - every request passes here
                self._mutex.release()
            except RuntimeError:
                pass  # it was never acquired
        if wake_ups:
            self._pipes.send(wake_ups)
        return result

    def sync(self, name: str) -> None:
        """Make sure that all commits are on the disk, so that a power cut can't undo them.

        This runs after the commit and without the mutex, so that no lock waits for the disk. Closing a
        descriptor of the log does no harm, because SQLite's locks are on the other files.
        """
        try:
            log = os.open(f"{self._path}-wal", os.O_RDONLY | os.O_CLOEXEC)
            try:
                os.fsync(log)
            finally:
                os.close(log)
        except OSError as error:
            raise engine_error(error, self._path, name, committing=True) from error

    @property
    def path(self) -> str:
        """The path of the file."""
        return self._path

    def is_replaced(self) -> bool:
        """Whether the open file is not the one at the path any more."""
        return self._connection is not None and _identity(self._path) != self._identity

    def alone(self, act: Callable[..., T], *args: Any) -> T:
        """Act on the file with a connection of one's own. No fork happens meanwhile."""
        with self._mutex:
            return act(*args)

    def close(self) -> None:
        """Close the connection. Another transaction would open it again."""
        with self._mutex:
            self._drop()

    def _wait_for_mutex(self, deadline: float, name: str | None) -> None:
        if not self._mutex.acquire(timeout=max(0.0, deadline - clock.now())):
            busy = apsw.BusyError("another thread of this process is still waiting for the file")
            raise engine_error(busy, self._path, name) from busy

    def _check(self, now: float) -> None:
        """Make sure that the open file is still the one at the path.

        Another program may have removed or replaced it. Locks in the old file would keep nobody out.
        """
        if self._connection is None or _identity(self._path) != self._identity:
            self._open()
        self._check_at = now + _CHECK_INTERVAL

    def _open(self) -> None:
        self._drop()
        # One file must have one path, because the names of the files beside it come from its path.
        self._path = self._pipes.path = os.path.realpath(self._path)
        if self._path in _unusable:
            raise EngineError(
                f"{self._path} can't be used in this process: it was forked in the middle of a "
                "transaction. Start the process anew (multiprocessing: 'spawn')",
                outcome="not applied",
            )
        make_file(self._path)
        self._identity = _identity(self._path)
        connection = connect(self._path, self._wait_for_file)
        self._execute = connection.cursor().execute
        self._operations = Operations(self._execute)
        # Last: after an interruption there is no half-ready connection.
        self._connection = connection

    def _wait_for_file(self, tries: int) -> bool:
        """SQLite's busy handler: pause, then return whether to try again."""
        left = self._deadline - clock.now()
        if left <= 0:
            return False
        if tries < _YIELDS:
            os.sched_yield()
            return True
        pause = min(_MIN_PAUSE * 1.5 ** min(tries - _YIELDS, 20), _MAX_PAUSE)
        time.sleep(min(left, pause * (0.5 + random())))
        return True

    def _abort(self, *, broken: bool) -> None:
        """Leave no transaction open. After a failure of the file, close the connection as well."""
        self._operations.wake_ups.clear()
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
        self._execute = _not_connected
        self._check_at = -math.inf
        if connection is not None:
            connection.close(True)

    # --- fork: SQLite must have no file open then. The child would seem to hold locks that it does not have

    def prepare_fork(self) -> bool:
        """Close the connection and keep it closed until the fork is done. Returns False if it can't."""
        if not self._mutex.acquire(timeout=_FORK_TIMEOUT):
            return False
        if self._in_request:
            self._mutex.release()
            return False
        self._drop()
        return True

    def end_fork(self) -> None:
        self._mutex.release()

    def forget_connection(self) -> None:
        """In the child of a fork that could not be prepared: the open connection is the parent's."""
        _unusable[self._path] = self._connection
        self._connection = None
        self._check_at = -math.inf


def _identity(path: str) -> tuple[int, int] | None:
    try:
        stat = os.stat(path)
    except FileNotFoundError:
        return None
    return stat.st_dev, stat.st_ino


def _not_connected(*_: object) -> Any:
    raise AssertionError("no connection")


_files: weakref.WeakSet[LockFile] = weakref.WeakSet()
_forking = threading.Lock()  # held during a fork
_prepared: list[LockFile] = []
_unprepared: list[LockFile] = []
# By path. The connections stay referenced, so that they are never closed in the child.
_unusable: dict[str, apsw.Connection | None] = {}


def _before_fork() -> None:
    _forking.acquire()
    for file in list(_files):
        (_prepared if file.prepare_fork() else _unprepared).append(file)


def _after_fork_in_parent() -> None:
    while _prepared:
        _prepared.pop().end_fork()
    _unprepared.clear()
    _forking.release()


def _after_fork_in_child() -> None:
    for file in _unprepared:
        file.forget_connection()
    _after_fork_in_parent()


os.register_at_fork(
    before=_before_fork,
    after_in_parent=_after_fork_in_parent,
    after_in_child=_after_fork_in_child,
)
