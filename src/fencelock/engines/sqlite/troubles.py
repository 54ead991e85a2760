"""From SQLite's errors to ours: what happened to the file, and what to do about it."""

from __future__ import annotations

import errno
import os
import resource
from contextlib import ExitStack
from pathlib import Path

import apsw

from fencelock.core.errors import EngineError

Trouble = apsw.Error | OSError


def translated(
    error: Trouble, path: str, name: str | None, *, committing: bool = False
) -> EngineError:
    """The error to raise. Only a commit that broke off leaves it open whether it was applied."""
    unknown = committing and not isinstance(error, apsw.BusyError | apsw.FullError)
    return EngineError(
        _explained(error, path), outcome="unknown" if unknown else "not applied", name=name
    )


def _explained(error: Trouble, path: str) -> str:
    exhausted = _descriptors_ran_out(error)
    if exhausted is not None:
        return f"can't open {path}: {exhausted}"
    if isinstance(error, OSError):
        return f"can't use {error.filename or path}: {error.strerror or error}; check the path and its rights"
    if isinstance(error, apsw.BusyError):
        return (
            f"{path} is busy: others have been in the middle of a transaction all the time; "
            "if a process is stopped, or stands in a debugger, let it go on or end it"
        )
    if isinstance(error, apsw.FullError):
        return f"the disk that holds {path} is full: make room, then try again"
    if isinstance(error, apsw.ReadOnlyError | apsw.CantOpenError | apsw.PermissionsError):
        return _inaccessible(path) or f"can't open {path}: {error}; check the path and its rights"
    if isinstance(error, apsw.NotADBError):
        return foreign(path, "it is no SQLite file at all")
    if isinstance(error, apsw.CorruptError | apsw.SQLError):
        return (
            f"{path} is damaged ({error}): stop its users, move it away together with {path}-wal and "
            f"{path}-shm, and a new one is made at the next use; fences still grow, by the clock"
        )
    return f"could not use {path}: {error}; look at the disk and the kernel's log"


def _descriptors_ran_out(error: Trouble) -> str | None:
    """Whether that is what is wrong, and what to do then. SQLite itself does not say: so we try."""
    try:
        if isinstance(error, OSError):
            raise error
        if isinstance(error, apsw.CantOpenError | apsw.IOError):
            _open_some()
    except OSError as failure:
        if failure.errno == errno.EMFILE:
            most, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
            return (
                f"this process has used up its {most} file descriptors: look what it keeps open, or "
                "raise the limit, with `ulimit -n` or systemd's LimitNOFILE="
            )
        if failure.errno == errno.ENFILE:
            return "the system has used up its file descriptors: raise the kernel's fs.file-max"
    return None


def _open_some() -> None:
    """As many descriptors as SQLite wants for a file: by now it has closed those that it got."""
    with ExitStack() as opened:
        for _ in range(4):
            opened.enter_context(open(os.devnull, "rb", buffering=0))


def foreign(path: str, reason: str) -> str:
    """What to say of a file that is something else."""
    return (
        f"{path} is not a Fencelock lock file ({reason}): "
        "choose another path, or move this file away if it is of no use"
    )


def _inaccessible(path: str) -> str | None:
    """What keeps us from writing the file, as far as the rights tell."""
    file = Path(path)
    if file.is_dir():
        return f"{path} is a folder: name a file in it, e.g. sqlite:///{path}/locks.db"
    if not os.access(file.parent, os.W_OK | os.X_OK):
        return (
            f"can't write to the folder {file.parent}: SQLite keeps files beside the lock file; "
            "give this user the right to write there, or choose another folder"
        )
    for each in (file, Path(path + "-wal"), Path(path + "-shm")):
        if each.exists() and not os.access(each, os.R_OK | os.W_OK):
            return f"can't write to {each}: give this user the right to read and write it"
    return None
