"""What a lock file and the place where it lies say about themselves. Changes nothing, and makes no file."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping

import apsw

from fencelock.core.errors import EngineError
from fencelock.engines.diagnosis import Server, measure
from fencelock.engines.sqlite.connect import boot_id, is_ours
from fencelock.engines.sqlite.errors import engine_error
from fencelock.engines.sqlite.lock_file import LockFile
from fencelock.engines.sqlite.mounts import kind_of_folder, network_kind
from fencelock.io import clock
from fencelock.io.contract import IO


async def describe(file: LockFile, io: IO) -> Server:
    """The file as one server, of the role "file", or "remote file" on a network file system."""
    server = await io.call(_server, file)
    if server.said.get("exists") != "yes":  # to open it would make it
        return server
    said = dict(server.said)

    async def look() -> float | None:
        said.update(await io.call(file.alone, _look, server.where))
        return None

    timing = await measure(look, io)
    place = os.stat(file.path)
    return server._replace(
        said=said,
        round_trips=timing.round_trips,
        identity=f"sqlite {boot_id()} {place.st_dev} {place.st_ino}",
    )


def _server(file: LockFile) -> Server:
    path = os.path.realpath(file.path)
    server = Server(path, "file", own_clock=False)
    folder = os.path.dirname(path)
    if network_kind(folder) is not None:  # nothing works there, and a request may hang
        said = {"file_system": kind_of_folder(folder)}
        return server._replace(role="remote file", said=said)
    try:
        return server._replace(said=_place(path) | {"replaced": _yes(file.is_replaced())})
    except OSError as error:
        return server._replace(failure=str(error))


def _place(path: str) -> dict[str, str]:
    """The folder and its file system; of a folder that does not exist yet, the one above it."""
    folder = os.path.dirname(path)
    while not os.path.isdir(folder):
        folder = os.path.dirname(folder)
    exists = os.path.exists(path)
    space = os.statvfs(folder)
    return {
        "folder": folder,
        "exists": _yes(exists),
        "file_system": kind_of_folder(folder),
        "folder_writable": _yes(os.access(folder, os.W_OK | os.X_OK)),
        "file_writable": _yes(not exists or os.access(path, os.R_OK | os.W_OK)),
        "free_bytes": str(space.f_bavail * space.f_frsize),
        # A file system that makes inodes as it needs them has no number of them.
        **({"free_inodes": str(space.f_favail)} if space.f_files else {}),
    }


def _look(path: str) -> Mapping[str, str]:
    """Whether the file can be used, and in which boot of which machine it was."""
    try:
        connection = apsw.Connection(path, flags=apsw.SQLITE_OPEN_READONLY)
        try:
            connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
            if not is_ours(connection, path):
                return {"boot": ""}
            ((boot,),) = connection.execute("SELECT boot FROM file")
        finally:
            connection.close()
    except apsw.Error as error:
        return {"unusable": str(engine_error(error, path, None, committing=False))}
    except EngineError as error:
        return {"unusable": str(error)}
    began = time.time() - clock.now()  # our clock counts from the boot
    return {
        "boot": boot,
        "this_boot": boot_id(),
        "changed_since_boot": _yes(_changed_at(path) > began),
    }


def _changed_at(path: str) -> float:
    """When the file was last written, which mostly happens to its log."""
    times = [os.stat(each).st_mtime for each in (path, f"{path}-wal") if os.path.exists(each)]
    return max(times, default=0.0)


def _yes(fact: bool) -> str:
    return "yes" if fact else "no"
