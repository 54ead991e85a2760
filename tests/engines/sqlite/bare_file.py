"""A lock file without an engine around it, and a clock that the test sets."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any

import apsw

from fencelock.core.ticket import ALONE, Departure, Owner, Share, Ticket
from fencelock.engines.sqlite import operations
from fencelock.engines.sqlite.connect import connect, make_file
from fencelock.engines.sqlite.operations import Operations
from fencelock.engines.sqlite.uncontended import give_back, take

OWNER = Owner("host", 1, "somebody")
NAME = "order:42"


def listen(id: str) -> str:
    return f"{id}:1"


_numbers = count()


class BareFile:
    """The operations on one lock file, at a time that stands still."""

    def __init__(self, folder: Path) -> None:
        self.path = str(folder / f"{next(_numbers)}.db")
        make_file(self.path)
        self.connection = connect(self.path, lambda tries: False)
        self.operations = Operations(self.connection.cursor().execute)
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
        return self.request_enter(Ticket(name, id, ttl, OWNER, share), if_free)

    def leave(self, id: str, *, name: str = NAME) -> Any:
        return self.request_leave(Ticket(name, id, 30.0, OWNER))

    def request_enter(self, ticket: Ticket, if_free: bool) -> Any:
        """As the engine does it."""
        sweep = operations.is_sweep_due()
        free = None if sweep else take(self.operations._execute, ticket, operations.now_us())
        return free or self.do(self.operations.enter, ticket, if_free, listen, sweep)

    def request_leave(self, ticket: Ticket, departure: Departure = Departure.RELEASED) -> Any:
        """As the engine does it."""
        now, lost = operations.now_us(), departure is Departure.LOST
        if not lost and give_back(self.operations._execute, ticket, now):
            return True
        return self.do(self.operations.leave, ticket, departure)

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


@contextmanager
def executed(operations: Operations) -> Iterator[list[str]]:
    """The statements that a request runs, without those around it."""
    seen: list[str] = []
    execute = operations._execute

    def recording(sql: str, *args: Any) -> Any:
        seen.append(sql)
        return execute(sql, *args)

    operations._execute = recording
    yield seen
    operations._execute = execute
