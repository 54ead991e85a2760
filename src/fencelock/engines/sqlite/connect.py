"""Connecting to a lock file: make it if it is missing, and refuse a file that is something else."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from importlib.resources import files
from pathlib import Path

import apsw

from fencelock.core.errors import EngineError, Unsupported
from fencelock.engines.sqlite.errors import not_a_lock_file
from fencelock.engines.sqlite.mounts import network_kind
from fencelock.engines.sqlite.operations import Operations

APPLICATION_ID = 0x484F4C44
"""Marks the file's header as ours, also for the command `file`: "HOLD"."""

FORMAT = 3
"""The version of the schema. It changes when another version of Fencelock can't work with the file."""

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


def boot_id() -> str:
    """An id for this boot of the machine, or "" if the system has none."""
    try:
        return _BOOT_ID.read_text("ascii").strip()
    except OSError:
        return ""


def make_file(path: str) -> None:
    """Make the file and its folders if they are missing, for this user and at most for its group."""
    folder = Path(path).parent
    kind = network_kind(str(folder))
    if kind is not None:
        raise Unsupported(
            f"{path} is on a network file system ({kind}), where SQLite's locks don't work: put the "
            "lock file on a local disk, or, for several machines, use an engine with a server"
        )
    missing = [each for each in (folder, *folder.parents) if not each.exists()]
    for each in reversed(missing):
        each.mkdir(mode=0o700, exist_ok=True)
    with suppress(FileExistsError):
        # Only a new file is opened here: closing a descriptor of an old one would drop every lock that
        # another client in this process has on it.
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o660))


def connect(path: str, busy: Callable[[int], bool]) -> apsw.Connection:
    """Open a lock file that exists, and make its tables if it is empty."""
    connection = apsw.Connection(path, flags=apsw.SQLITE_OPEN_READWRITE)
    try:
        connection.set_busy_handler(busy)
        # SQLite plans each statement once. Without this, each bound value makes it plan again.
        connection.config(apsw.SQLITE_DBCONFIG_ENABLE_QPSG, 1)
        # The log stays when the last connection closes. Moving it into the file waits for the disk: about
        # ten milliseconds for every short-lived process and every fork.
        connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
        if connection.readonly("main"):
            raise apsw.ReadOnlyError("the file is read-only")
        if not is_ours(connection, path):
            _create(connection, path, busy)
        # After a power cut the last commits may be missing, but then every holder is dead as well. Notes
        # must outlive a power cut: `LockFile.sync` does that.
        connection.execute("PRAGMA synchronous = NORMAL")
        _end_tickets_of_other_boots(connection)
    except BaseException:
        connection.close()
        raise
    return connection


def is_ours(connection: apsw.Connection, path: str) -> bool:
    """Whether the file has our tables. False if it is empty; an error if it is something else."""
    # In this order: another process may be making the tables, and it sets the ids with them.
    if connection.execute("SELECT count(*) FROM sqlite_schema").get == 0:
        return False
    if connection.pragma("application_id") != APPLICATION_ID:
        raise EngineError(
            not_a_lock_file(path, "it is a SQLite file of another program"), outcome="not applied"
        )
    version = connection.pragma("user_version")
    if version != FORMAT:
        raise EngineError(
            f"{path} was made by another version of Fencelock (its format is {version}, this version "
            f"writes {FORMAT}): use one version in all programs, or choose another path. If no program "
            f"uses it any more, move it away together with {path}-wal and {path}-shm; fences still grow",
            outcome="not applied",
        )
    return True


def _create(connection: apsw.Connection, path: str, busy: Callable[[int], bool]) -> None:
    connection.execute("PRAGMA page_size = 1024")  # small, because every commit writes whole pages
    if _switch_to_wal(connection, busy) != "wal":
        raise EngineError(
            f"{path} is on a file system without shared memory, which SQLite needs: "
            "put the lock file on a local disk",
            outcome="not applied",
        )
    connection.execute("BEGIN IMMEDIATE")
    if not is_ours(connection, path):
        connection.execute(files(__package__).joinpath("schema.sql").read_text("utf-8"))
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        connection.execute(f"PRAGMA user_version = {FORMAT}")
    connection.execute("COMMIT")


def _switch_to_wal(connection: apsw.Connection, busy: Callable[[int], bool]) -> str:
    tries = 0
    while True:
        try:
            return str(connection.execute("PRAGMA journal_mode = WAL").get)
        except apsw.BusyError:  # another process makes the file. SQLite calls no handler here
            if not busy(tries):
                raise
            tries += 1


def _end_tickets_of_other_boots(connection: apsw.Connection) -> None:
    boot, operations = boot_id(), Operations(connection.execute)
    if not operations.is_boot(boot):
        connection.execute("BEGIN IMMEDIATE")
        operations.start_boot(boot)
        connection.execute("COMMIT")
