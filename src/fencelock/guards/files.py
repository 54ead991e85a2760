"""A file that is replaced as a whole, and only by a holder that nobody has overtaken."""

from __future__ import annotations

import asyncio
import fcntl
import os
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from fencelock.core.errors import StaleFence
from fencelock.guards.stamp import Stamp, holder_of

_PAUSE = 0.01


class FencedFile:
    """A file on a local disk, with its newest fence beside it (`NAME.fence`, and `NAME.lock` to check it).

    Readers see the old content or the new one, never a part. `timeout`: how long to wait for another
    writer to finish its last step, in seconds.
    """

    def __init__(self, path: str | os.PathLike[str], *, timeout: float = 10.0) -> None:
        self.path = Path(path).resolve()  # by whatever link one comes, the fence is the same
        self._fence = self.path.with_name(self.path.name + ".fence")
        self._lock = self.path.with_name(self.path.name + ".lock")
        self._timeout = timeout

    def read(self) -> bytes:
        """The content; `FileNotFoundError` if nobody has written yet."""
        return self.path.read_bytes()

    def write(self, data: bytes, lease: Stamp) -> None:
        """Replace the content; `StaleFence` if a newer holder was here, and then nothing has changed."""
        # What takes long comes first, so that nobody has to wait for it.
        with _prepared(self.path, data) as fresh, self._locked():
            self._check(lease)
            os.replace(fresh, self.path)
            _sync_folder(self.path.parent)

    def raise_fence(self, lease: Stamp) -> None:
        """The read barrier: after this no older holder can write any more. So what you read then stays true
        until you write, or your write is refused."""
        with self._locked():
            self._check(lease)

    def newest(self) -> int:
        """The newest fence that was seen, 0 if there is none."""
        return self._seen()[0]

    def _check(self, lease: Stamp) -> None:
        its = (lease.fence, holder_of(lease))
        newest, holder = self._seen()
        if (newest, holder) == its:
            return
        if its[0] <= newest:
            raise StaleFence(lease.name, given=lease.fence, newest=newest)
        # Before the content: if we die in between, the older holder is refused all the same.
        with _prepared(self._fence, f"{its[0]} {its[1]}\n".encode()) as fresh:
            os.replace(fresh, self._fence)
            _sync_folder(self.path.parent)

    def _seen(self) -> tuple[int, str]:
        try:
            fence, holder = self._fence.read_text("ascii").split()
        except FileNotFoundError:
            return 0, ""
        return int(fence), holder

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """Alone among all processes. The kernel ends it when a process dies, not when one is stopped."""
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
                    time.sleep(_PAUSE)
            yield


class AsyncFencedFile:
    """The same for asyncio: a thread does it, for a disk can't be waited for in any other way."""

    def __init__(self, path: str | os.PathLike[str], *, timeout: float = 10.0) -> None:
        self._file = FencedFile(path, timeout=timeout)
        self.path = self._file.path

    async def read(self) -> bytes:
        """The content; `FileNotFoundError` if nobody has written yet."""
        return await asyncio.to_thread(self._file.read)

    async def write(self, data: bytes, lease: Stamp) -> None:
        """Replace the content; `StaleFence` if a newer holder was here, and then nothing has changed."""
        await asyncio.to_thread(self._file.write, data, lease)

    async def raise_fence(self, lease: Stamp) -> None:
        """The read barrier: after this no older holder can write any more. So what you read then stays true
        until you write, or your write is refused."""
        await asyncio.to_thread(self._file.raise_fence, lease)

    async def newest(self) -> int:
        """The newest fence that was seen, 0 if there is none."""
        return await asyncio.to_thread(self._file.newest)


@contextmanager
def _prepared(path: Path, data: bytes) -> Iterator[str]:
    """A file beside `path` with this content, safe on the disk; removed unless it was moved away."""
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
    """As the file has it already, or as a new one would."""
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
