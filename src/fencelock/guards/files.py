"""A file that is replaced as a whole, and never by a stale holder."""

from __future__ import annotations

import asyncio
import fcntl
import functools
import os
import tempfile
import time
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, TypeVar

from fencelock.core.durations import Duration, check_timeout
from fencelock.guards.lease_like import LeaseLike, holder_of, refused

P = ParamSpec("P")
S = TypeVar("S")
T = TypeVar("T")

_RETRY_EVERY = 0.01
"""Seconds between two attempts to get the file lock."""


class BaseFencedFile:
    """What `FencedFile` and `AsyncFencedFile` share."""

    def __init__(self, path: str | os.PathLike[str], *, timeout: Duration = 10.0) -> None:
        self.path = Path(path).resolve()  # also through a link, the fence is the same
        self._fence = self.path.with_name(self.path.name + ".fence")
        self._lock = self.path.with_name(self.path.name + ".lock")
        self._timeout = check_timeout(timeout)

    def _check(self, lease: LeaseLike) -> None:
        given = (lease.fence, holder_of(lease))
        newest = self._newest()
        if newest == given:
            return
        if given[0] <= newest[0]:
            raise refused("file", lease, newest[0])
        # Before the content: if we die in between, the older holder is refused all the same.
        with _prepared(self._fence, f"{given[0]} {given[1]}\n".encode()) as fresh:
            os.replace(fresh, self._fence)
            _sync_folder(self.path.parent)

    def _newest(self) -> tuple[int, str]:
        try:
            fence, holder = self._fence.read_text("ascii").split()
        except FileNotFoundError:
            return 0, ""
        return int(fence), holder

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """Keep other processes out. The kernel unlocks when a process dies, but not when it is stopped."""
        limit = time.monotonic() + self._timeout
        with open(self._lock, "ab") as file:
            while True:
                try:
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except BlockingIOError:
                    if time.monotonic() >= limit:
                        raise TimeoutError(
                            f"another process has been replacing {self.path} for {self._timeout:g} s: "
                            "is it stopped?"
                        ) from None
                    time.sleep(_RETRY_EVERY)
            yield


class FencedFile(BaseFencedFile):
    """A file on a local disk. Its newest fence is in `NAME.fence` beside it, its file lock in `NAME.lock`.

    Readers see the old content or the new content, never a mixture. `timeout` says how many seconds to wait
    for another writer to finish its last step.
    """

    def read(self: BaseFencedFile) -> bytes:
        """The content; `FileNotFoundError` if nobody has written yet."""
        return self.path.read_bytes()

    def write(self: BaseFencedFile, data: bytes, lease: LeaseLike) -> None:
        """Replace the content; `StaleFence` if a newer holder was here, and then nothing has changed."""
        # The slow part comes first, without the file lock: nobody has to wait for it.
        with _prepared(self.path, data) as fresh, self._locked():
            self._check(lease)
            os.replace(fresh, self.path)
            _sync_folder(self.path.parent)

    def raise_fence(self: BaseFencedFile, lease: LeaseLike) -> None:
        """The read barrier: after this no older holder can write any more.

        So what you read then stays true until you write, or your write is refused.
        """
        with self._locked():
            self._check(lease)

    def newest(self: BaseFencedFile) -> int:
        """The newest fence that was seen, 0 if there is none."""
        return self._newest()[0]


def _in_thread(
    method: Callable[Concatenate[S, P], T],
) -> Callable[Concatenate[S, P], Coroutine[Any, Any, T]]:
    """The asyncio face of a blocking method, in a thread: a disk has no other."""

    @functools.wraps(method)
    async def face(self: S, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await asyncio.to_thread(method, self, *args, **kwargs)

    return face


class AsyncFencedFile(BaseFencedFile):
    """`FencedFile` for asyncio: a thread does the work."""

    read = _in_thread(FencedFile.read)
    write = _in_thread(FencedFile.write)
    raise_fence = _in_thread(FencedFile.raise_fence)
    newest = _in_thread(FencedFile.newest)


@contextmanager
def _prepared(path: Path, data: bytes) -> Iterator[str]:
    """A new file beside `path` with this content, flushed to the disk. Removed at the end unless renamed."""
    number, fresh = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with os.fdopen(number, "wb") as file:
            file.write(data)
            file.flush()
            os.fchmod(file.fileno(), _mode(path))
            os.fsync(file.fileno())
        yield fresh
    finally:
        with suppress(FileNotFoundError):
            os.unlink(fresh)


def _mode(path: Path) -> int:
    """The permissions of the file, or those that a new file would get."""
    with suppress(FileNotFoundError):
        return path.stat().st_mode & 0o7777
    mask = os.umask(0)
    os.umask(mask)
    return 0o666 & ~mask


def _sync_folder(folder: Path) -> None:
    number = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(number)
    finally:
        os.close(number)
