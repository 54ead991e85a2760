"""From SQLite's errors to `EngineError`: what happened to the file, and what to do about it."""

from __future__ import annotations

import errno
import os
import resource
from contextlib import ExitStack
from pathlib import Path

import apsw

from fencelock.core.errors import EngineError

FileError = apsw.Error | OSError


def engine_error(
    error: FileError, path: str, name: str | None, *, committing: bool = False
) -> EngineError:
    """The error to raise. Only a commit that was interrupted may have been applied."""
    unknown = committing and not isinstance(error, apsw.BusyError | apsw.FullError)
    return EngineError(
        _explanation(error, path), outcome="unknown" if unknown else "not applied", name=name
    )


def _explanation(error: FileError, path: str) -> str:
    exhausted = _descriptors_exhausted(error)
    if exhausted is not None:
        return f"can't open {path}: {exhausted}"
    if isinstance(error, OSError):
        return f"can't use {error.filename or path}: {error.strerror or error}; check the path and its rights"
    if isinstance(error, apsw.BusyError):
        return (
            f"{path} is busy: other transactions held it all the time; if a process is stopped or "
            "stands in a debugger, let it continue or end it"
        )
    if isinstance(error, apsw.FullError):
        return f"the disk that holds {path} is full: make room, then try again"
    if isinstance(error, apsw.ReadOnlyError | apsw.CantOpenError | apsw.PermissionsError):
        return _inaccessible(path) or f"can't open {path}: {error}; check the path and its rights"
    if isinstance(error, apsw.NotADBError):
        return not_a_lock_file(path, "it is no SQLite file at all")
    if isinstance(error, apsw.CorruptError | apsw.SQLError):
        return (
            f"{path} is damaged ({error}): stop its users, then move it away together with {path}-wal "
            f"and {path}-shm. The next use makes a new file; its fences still grow, by the clock"
        )
    return f"could not use {path}: {error}; look at the disk and the kernel's log"


def _descriptors_exhausted(error: FileError) -> str | None:
    """What to do if file descriptors have run out, else None. SQLite does not say, so try to open some."""
    try:
        if isinstance(error, OSError):
            raise error
        if isinstance(error, apsw.CantOpenError | apsw.IOError):
            # As many as SQLite needs for a file. SQLite has closed its own by now.
            with ExitStack() as opened:
                for _ in range(4):
                    opened.enter_context(open(os.devnull, "rb", buffering=0))
    except OSError as failure:
        if failure.errno == errno.EMFILE:
            most, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
            return (
                f"this process has used up its {most} file descriptors: look at what it keeps open, or "
                "raise the limit, with `ulimit -n` or systemd's LimitNOFILE="
            )
        if failure.errno == errno.ENFILE:
            return "the system has used up its file descriptors: raise the kernel's fs.file-max"
    return None


def not_a_lock_file(path: str, reason: str) -> str:
    """The message about a file that is something else."""
    return (
        f"{path} is not a Fencelock lock file ({reason}): "
        "choose another path, or move this file away if nobody needs it"
    )


def _inaccessible(path: str) -> str | None:
    """The right that is missing to write the file, as far as the file modes tell."""
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
