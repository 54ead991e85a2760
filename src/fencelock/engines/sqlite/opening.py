"""Opening a lock file: make it if it is not there, and make sure that it is one."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from importlib.resources import files
from itertools import count
from pathlib import Path

import apsw

from fencelock.core.errors import EngineError, Unsupported
from fencelock.engines.sqlite.mounts import network_kind
from fencelock.engines.sqlite.queue import Queues
from fencelock.engines.sqlite.troubles import foreign

APPLICATION_ID = 0x484F4C44
"""In the file's header, so that `file` and we know it: "HOLD"."""

SCHEMA = 3
"""Changes whenever an older Fencelock could not work with the file any more."""

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


def boot_id() -> str:
    """Which boot of this machine this is; empty where the system doesn't tell."""
    try:
        return _BOOT_ID.read_text("ascii").strip()
    except OSError:
        return ""


def make_file(path: str) -> None:
    """Make sure that there is a file, with its folders. Nobody but the group can be let in."""
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
        # Only if it is new: closing a descriptor would drop every lock that another client in this
        # process has on the file.
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o660))


def connect(path: str, busy: Callable[[int], bool]) -> apsw.Connection:
    """A connection to a lock file that is ready for use."""
    connection = apsw.Connection(path, flags=apsw.SQLITE_OPEN_READWRITE)
    try:
        connection.set_busy_handler(busy)
        # Plans are made once: without this, every value that is bound makes SQLite plan anew.
        connection.config(apsw.SQLITE_DBCONFIG_ENABLE_QPSG, 1)
        # The log stays when the last connection is closed: moving it into the file waits for the
        # disk, which would cost every short-lived process, and every fork, some ten milliseconds.
        connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
        if connection.readonly("main"):
            raise apsw.ReadOnlyError("the file is read-only")
        if not _is_ours(connection, path):
            _create(connection, path, busy)
        # After a power cut the last commits may be missing, but then every holder is dead as well. Notes
        # are to outlive that: `File.sync`.
        connection.execute("PRAGMA synchronous = NORMAL")
        _end_tickets_of_other_boots(connection)
    except BaseException:
        connection.close()
        raise
    return connection


def _is_ours(connection: apsw.Connection, path: str) -> bool:
    """False if the file is still empty; an error if it is something else."""
    # In this order: another process may be creating the schema, and the ids come along with it.
    if connection.execute("SELECT count(*) FROM sqlite_schema").get == 0:
        return False
    if connection.pragma("application_id") != APPLICATION_ID:
        raise EngineError(
            foreign(path, "it is a SQLite file of another program"), outcome="not applied"
        )
    version = connection.pragma("user_version")
    if version != SCHEMA:
        raise EngineError(
            f"{path} was made by another version of Fencelock (its format is {version}, this version "
            f"writes {SCHEMA}): let all programs use one version, or choose another path. If nobody uses "
            f"it any more, move it away together with {path}-wal and {path}-shm; fences still grow",
            outcome="not applied",
        )
    return True


def _create(connection: apsw.Connection, path: str, busy: Callable[[int], bool]) -> None:
    connection.execute("PRAGMA page_size = 1024")  # small pages: every commit writes whole ones
    if _switch_to_wal(connection, busy) != "wal":
        raise EngineError(
            f"{path} is on a file system without shared memory, which SQLite needs: "
            "put the lock file on a local disk",
            outcome="not applied",
        )
    connection.execute("BEGIN IMMEDIATE")
    if not _is_ours(connection, path):
        connection.execute(files(__package__).joinpath("schema.sql").read_text("utf-8"))
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        connection.execute(f"PRAGMA user_version = {SCHEMA}")
    connection.execute("COMMIT")


def _switch_to_wal(connection: apsw.Connection, busy: Callable[[int], bool]) -> str:
    for tries in count():
        try:
            return str(connection.execute("PRAGMA journal_mode = WAL").get)
        except apsw.BusyError:  # two are making the file, and SQLite does not ask the handler here
            if not busy(tries):
                raise
    raise AssertionError("count() has no end")


def _end_tickets_of_other_boots(connection: apsw.Connection) -> None:
    boot, queues = boot_id(), Queues(connection.execute)
    if not queues.survive(boot):
        connection.execute("BEGIN IMMEDIATE")
        queues.reboot(boot)
        connection.execute("COMMIT")
