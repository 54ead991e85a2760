"""The journal of a worker: a file with one JSON object per line, each written at once.

A worker may be killed at any moment. What it wrote before is in its journal. Every moment is read from
`fencelock.io.clock`, which all processes of a machine share.
"""

from __future__ import annotations

import json
import os
import threading
from pathlib import Path
from typing import Any

from fencelock.io.clock import now


class Journal:
    """The worker's side: it appends."""

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_CREAT | os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC, 0o600)

    def write(self, what: str, at: float | None = None, **details: Any) -> None:
        """Append a line. One system call, so that a line is whole or missing."""
        line = {"what": what, "at": now() if at is None else at, **details}
        os.write(self._file, (json.dumps(line) + "\n").encode())


class Reader:
    """The coordinator's side: it reads what has been added since the last time."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._rest = b""
        self._read = 0

    def lines(self) -> list[dict[str, Any]]:
        """The new lines that are complete."""
        if not self._path.exists():
            return []
        with self._path.open("rb") as file:
            file.seek(self._read)
            data = file.read()
        self._read += len(data)
        *complete, self._rest = (self._rest + data).split(b"\n")
        return [json.loads(line) for line in complete]


class Pulse:
    """Writes into a journal when this process stood still, whatever the reason was."""

    EVERY = 0.05
    """Seconds between two looks at the clock."""
    LATE = 0.25
    """A look that is so many seconds late shows that the process stood still."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._beat, name="pulse", daemon=True)
        self._thread.start()

    def end(self) -> None:
        """Stop looking."""
        self._ended.set()
        self._thread.join()

    def _beat(self) -> None:
        before = now()
        while not self._ended.wait(self.EVERY):
            at = now()
            if at - before > self.EVERY + self.LATE:
                self._journal.write("stall", at, since=before)
            before = at
