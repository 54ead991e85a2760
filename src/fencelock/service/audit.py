"""The audit log: who did what to which lock, one JSON object per line.

A replica writes what it sees. If a client goes on at another replica, that one's log has the rest. The log
never contains ids of tickets, keys or tokens.
"""

from __future__ import annotations

import asyncio
import logging
import os
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import UTC, datetime
from typing import Literal

import msgspec

from fencelock.service.principals import Principal

log = logging.getLogger("fencelock.service")

Event = Literal[
    "waiting",  # a ticket has joined the queue
    "granted",
    "released",
    "withdrawn",  # a waiting ticket has left
    "lost",  # the engine says that a lease which this replica knew is gone
    "lapsed",  # a lease was not renewed at this replica: it expired, or its client went elsewhere
    "broke",
    "refused",
]

_PAUSE = 0.05
"""Seconds for which lines are collected before they are written."""
_MOST = 10_000
"""Lines that wait to be written at most. A disk that hangs must not fill the memory."""


class Line(msgspec.Struct, omit_defaults=True):
    """One line of the log."""

    time: str
    event: Event | Literal["dropped"]
    principal: str = ""
    address: str = ""
    credential: str = ""
    name: str | None = None
    fence: str | None = None
    reason: str = ""
    """Of a refusal: the kind of the problem."""
    count: int = 1
    """How many of the same kind this line stands for."""


_encode = msgspec.json.Encoder().encode


class Audit:
    """Collects lines, and writes them in a thread of its own. Locks never wait for it.

    `path` is a file, "-" for stderr, or empty for no log.
    """

    def __init__(self, path: str) -> None:
        self.enabled = bool(path)
        self.dropped = 0
        """Lines that were lost, because they could not be written."""
        self._path = path
        self._file: int | None = None
        self._lines: list[bytes] = []
        self._unreported = 0
        self._refusals: dict[tuple[str, str, str], Line] = {}
        self._writer = ThreadPoolExecutor(1, "fencelock-audit")
        self._timer: asyncio.TimerHandle | None = None
        self._write: asyncio.Future[bool] | None = None
        self._failing = False
        if self.enabled:
            self._file = self._open()

    def _open(self) -> int:
        if self._path == "-":
            return 2
        return os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)

    def reopen(self) -> None:
        """Open the file again: its old one was renamed. If that fails, the old one is used on."""
        if self._file is None or self._path == "-":
            return
        new = self._open()
        old, self._file = self._file, new
        self._writer.submit(os.close, old)  # after the write that may use it

    def note(
        self, event: Event, principal: Principal, name: str | None = None, fence: str | None = None
    ) -> None:
        """Note that this principal did something, or that something happened to it."""
        if self.enabled:
            self._add(_line(event, principal, name, fence))

    def refused(self, principal: Principal, reason: str, name: str | None) -> None:
        """Note a refusal. A crowd of the same kind becomes one line with a count."""
        if not self.enabled:
            return
        key = principal.name, principal.address, reason
        if reason == "forbidden" or len(self._refusals) > 1000:
            self._add(_line("refused", principal, name, None, reason))
        elif key in self._refusals:
            self._refusals[key].count += 1
        else:
            self._refusals[key] = _line("refused", principal, name, None, reason)
            self._arm()

    def _add(self, line: Line) -> None:
        if len(self._lines) >= _MOST:
            self.dropped += 1
            self._unreported += 1
            return
        self._lines.append(_encode(line))
        if self._timer is None:
            self._arm()

    def _arm(self) -> None:
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(_PAUSE, self._flush)

    def _flush(self) -> None:
        """Hand the collected lines to the thread, unless it still writes the last ones."""
        self._timer = None
        if self._write is not None and not self._write.done():
            self._arm()
            return
        batch = self._collected()
        if batch:
            loop = asyncio.get_running_loop()
            self._write = loop.run_in_executor(self._writer, self._put, batch)

    def _collected(self) -> list[bytes]:
        lines, self._lines = self._lines, []
        lines += map(_encode, self._refusals.values())
        self._refusals.clear()
        if self._unreported:
            lines.append(_encode(Line(_now(), "dropped", count=self._unreported)))
            self._unreported = 0
        return lines

    def _put(self, lines: list[bytes]) -> bool:
        """Write, in the thread. A full disk stops the log, not the locks."""
        data = memoryview(b"\n".join(lines) + b"\n")
        try:
            while data:
                assert self._file is not None
                data = data[os.write(self._file, data) :]
        except OSError as error:
            self.dropped += len(lines)
            self._unreported += len(lines)
            if not self._failing:
                log.error("the audit log can't be written: %s. Locks go on", error.strerror)
            self._failing = True
            return False
        if self._failing:
            log.warning("the audit log can be written again; %d lines are missing", self.dropped)
        self._failing = False
        return True

    async def close(self) -> None:
        """Write what is left. A disk that hangs is not waited for long."""
        if self._timer is not None:
            self._timer.cancel()
        last = self._collected()
        if self.enabled and last:
            loop = asyncio.get_running_loop()
            with suppress(TimeoutError):
                async with asyncio.timeout(5.0):
                    await loop.run_in_executor(self._writer, self._put, last)
        self._writer.shutdown(wait=False, cancel_futures=True)


def _line(
    event: Event, principal: Principal, name: str | None, fence: str | None, reason: str = ""
) -> Line:
    who = principal.name, principal.address, principal.credential
    return Line(_now(), event, *who, name, fence, reason)


def _now() -> str:
    now = time.time()
    return f"{_second(int(now))}.{int(now * 1000) % 1000:03d}Z"


_last_second = 0, ""


def _second(second: int) -> str:
    """The date up to the second. It is formatted once in a second: that is slow."""
    global _last_second
    if _last_second[0] != second:
        _last_second = second, datetime.fromtimestamp(second, UTC).strftime("%Y-%m-%dT%H:%M:%S")
    return _last_second[1]
