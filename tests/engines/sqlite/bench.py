"""The queues of a lock file alone: no engine around them, and a clock that the test sets."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any

import apsw

from holdfast.core.ticket import ALONE, Owner, Share, Ticket
from holdfast.engines.sqlite.opening import connect, make_file
from holdfast.engines.sqlite.queue import Queues

OWNER = Owner("host", 1, "somebody")
NAME = "order:42"


def listen(id: str) -> str:
    return f"{id}:1"


_numbers = count()


class Bench:
    """A lock file without an engine around it, and a clock that stands still."""

    def __init__(self, folder: Path) -> None:
        self.path = str(folder / f"{next(_numbers)}.db")
        make_file(self.path)
        self.connection = connect(self.path, lambda tries: False)
        self.queues = Queues(self.connection.cursor().execute)
        self.now = 1_000.0

    def do(self, act: Any, *args: Any) -> Any:
        self.connection.execute("BEGIN IMMEDIATE")
        result = act(*args)
        self.connection.execute("COMMIT")
        return result

    def enter(
        self,
        id: str,
        share: Share = ALONE,
        *,
        name: str = NAME,
        ttl: float = 30.0,
        if_free: bool = False,
    ) -> Any:
        return self.do(self.queues.enter, Ticket(name, id, ttl, OWNER, share), if_free, listen)

    def leave(self, id: str, *, name: str = NAME) -> Any:
        return self.do(self.queues.leave, Ticket(name, id, 30.0, OWNER))

    def rows(self) -> int:
        return int(self.connection.execute("SELECT count(*) FROM queue").get)


@contextmanager
def instructions(connection: apsw.Connection) -> Iterator[list[None]]:
    """What SQLite's machine carries out: one entry each."""
    spent: list[None] = []

    def count_it() -> bool:
        spent.append(None)
        return False

    connection.set_progress_handler(count_it, 1)
    yield spent
    connection.set_progress_handler(None)
