"""The SQLite engine: one file, many processes of one machine, wake-ups through named pipes.

Correctness locks, as long as the processes share a kernel: SQLite's transactions decide who is
next, the clock since boot decides what has expired, and a reboot ends every ticket.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from fencelock.core.errors import Unsupported
from fencelock.core.ticket import ADMITTED, Departure, Inspection, Standing, Ticket
from fencelock.core.url import Url
from fencelock.engines.contract import Engine, Traits
from fencelock.engines.sqlite.file import READ, WRITE, File
from fencelock.engines.sqlite.pipes import Pipes
from fencelock.engines.sqlite.queue import Queues, sweeps_too
from fencelock.engines.sqlite.undisputed import give_back, take
from fencelock.engines.sqlite.waits import AsyncioWaits, BlockingWaits, Waits
from fencelock.io.contract import IO


class SqliteEngine(Engine):
    """Queues in a SQLite file."""

    traits = Traits(
        guarantee="correctness",
        fencing=(
            "max(previous + 1, the wall clock in µs), kept in the file: falls only if the file is "
            "deleted, or its newest commits are lost in a power cut, and the clock is behind afterwards"
        ),
        clock="this machine's clock since boot; a reboot ends every ticket",
        supports_sharing=True,
        supports_notes=True,
        condition="all run on one machine, and nobody deletes or replaces the file, on a local disk",
    )

    def __init__(self, path: str, io: IO) -> None:
        self._io = io
        pipes = Pipes(path)
        self._file = File(path, pipes)
        self._waits: Waits = (BlockingWaits if io.blocking else AsyncioWaits)(pipes, io)
        self._calm = True
        """Whether the last one that came did not have to wait. If not, the short way is likely in vain."""

    async def enter(self, ticket: Ticket, *, if_free: bool, timeout: float) -> Standing:
        io = self._io
        deadline = io.now() + timeout
        if io.blocking:  # `call` would do the same, in a coroutine more
            return self._enter(ticket, if_free, deadline)
        return await io.call(self._enter, ticket, if_free, deadline)

    def _enter(self, ticket: Ticket, if_free: bool, deadline: float) -> Standing:
        sweeps = sweeps_too()
        if self._calm and not sweeps:
            free = self._file.at_once(take, ticket, deadline)
            if free is not None:
                return free
        standing = self._file.transact(
            WRITE,
            deadline,
            ticket.name,
            Queues.enter,
            ticket,
            if_free,
            self._waits.listen,
            sweeps,
        )
        self._calm = standing.place is ADMITTED
        return standing

    async def enter_free(self, tickets: Sequence[Ticket], *, timeout: float) -> list[Standing]:
        io = self._io
        return await io.call(
            self._file.transact,
            WRITE,
            io.now() + timeout,
            None,
            Queues.enter_free,
            tickets,
            self._waits.listen,
        )

    async def renew(self, tickets: Sequence[Ticket], *, timeout: float) -> list[Standing | None]:
        io = self._io
        return await io.call(
            self._file.transact, WRITE, io.now() + timeout, None, Queues.renew, tickets
        )

    async def leave(
        self, ticket: Ticket, *, timeout: float, departure: Departure = Departure.RELEASED
    ) -> bool:
        io = self._io
        deadline = io.now() + timeout
        if io.blocking:
            return self._leave(ticket, departure, deadline)
        return await io.call(self._leave, ticket, departure, deadline)

    def _leave(self, ticket: Ticket, departure: Departure, deadline: float) -> bool:
        self._waits.forget(ticket.id)
        file = self._file
        try:
            # If its lease was lost, the name is abandoned, and there is that to write down.
            if (
                self._calm
                and departure is not Departure.LOST
                and file.at_once(give_back, ticket, deadline)
            ):
                return True
            return file.transact(WRITE, deadline, ticket.name, Queues.leave, ticket, departure)
        except Unsupported:
            return False  # a file that can't be opened has no tickets in it

    async def park(self, ticket: Ticket, until: float) -> Standing | None:
        return await self._waits.park(ticket.id, until)

    def unpark(self, ticket: Ticket) -> None:
        self._waits.drop(ticket.id)

    def interrupt(self, ticket: Ticket) -> None:
        self._waits.interrupt(ticket.id)

    async def remember(self, ticket: Ticket, text: str, *, keep: float, timeout: float) -> bool:
        io = self._io
        return await io.call(self._remember, ticket, text, keep, io.now() + timeout)

    def _remember(self, ticket: Ticket, text: str, keep: float, deadline: float) -> bool:
        noted = self._file.transact(
            WRITE, deadline, ticket.name, Queues.remember, ticket, text, keep
        )
        if noted:
            self._file.sync(ticket.name)
        return noted

    async def recall(self, name: str, *, timeout: float) -> str | None:
        io = self._io
        return await io.call(
            self._file.transact, READ, io.now() + timeout, name, Queues.recall, name
        )

    async def inspect(self, name: str, *, limit: int, timeout: float) -> Inspection:
        io = self._io
        return await io.call(
            self._file.transact, WRITE, io.now() + timeout, name, Queues.inspect, name, limit
        )

    async def names(self, pattern: str, *, timeout: float) -> list[str]:
        io = self._io
        return await io.call(
            self._file.transact, READ, io.now() + timeout, None, Queues.names, pattern
        )

    async def evict(self, name: str, *, timeout: float) -> bool:
        io = self._io
        return await io.call(
            self._file.transact, WRITE, io.now() + timeout, name, Queues.evict, name
        )

    async def close(self) -> None:
        self._waits.close()
        await self._io.call(self._file.close)


def open_sqlite(url: Url, io: IO) -> SqliteEngine:
    """`sqlite:///relative.db` or `sqlite:////absolute/path.db`; the file is made at its first use."""
    url.only()
    if url.hosts or url.user or url.password:
        raise ValueError(
            f"{url}: a lock file has no host, so its URL has three slashes and the path: "
            "sqlite:///locks.db, or with an absolute path sqlite:////var/lib/app/locks.db"
        )
    path = url.path.removeprefix("/")
    if not path or path.endswith("/"):
        raise ValueError(f"{url}: name a file, e.g. sqlite:///locks.db")
    if "\0" in path or not path.isprintable():
        raise ValueError(f"sqlite:///…: the path has characters that no file should have: {path!a}")
    if path == ":memory:":
        raise ValueError(f"{url}: for locks within one process use memory://")
    # Absolute from now on: a program that changes its folder must not end up with another file.
    return SqliteEngine(str(Path(path).absolute()), io)
