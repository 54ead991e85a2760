"""The SQLite engine: one file, many processes of one machine, wake-ups through named pipes.

It gives correctness locks to processes that share a kernel. SQLite's transactions decide which ticket is
next. The clock since boot decides which tickets have expired. A reboot ends every ticket.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from fencelock.core.errors import Unsupported
from fencelock.core.ticket import ADMITTED, Departure, Inspection, Standing, Ticket
from fencelock.core.url import Url
from fencelock.engines.contract import PINGED, Engine, Traits
from fencelock.engines.sqlite.listener import AsyncioListener, BlockingListener, Listener
from fencelock.engines.sqlite.lock_file import ONE_STATEMENT, READ, WRITE, LockFile
from fencelock.engines.sqlite.named_pipes import Pipes
from fencelock.engines.sqlite.operations import Operations, is_sweep_due
from fencelock.engines.sqlite.uncontended import give_back, take
from fencelock.io.contract import IO

if TYPE_CHECKING:
    from fencelock.engines.diagnosis import Server

T = TypeVar("T")


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
        supports_rates=True,
        supports_notes=True,
        portable=True,
        condition="all run on one machine, and nobody deletes or replaces the file, on a local disk",
    )

    def __init__(self, path: str, io: IO) -> None:
        self._io = io
        pipes = Pipes(path)
        self._file = LockFile(path, pipes)
        self._listener: Listener = (BlockingListener if io.blocking else AsyncioListener)(pipes, io)
        self._uncontended = True
        """Whether the last ticket of this client was admitted at once. If not, `take` would likely fail."""

    async def enter(self, ticket: Ticket, *, if_free: bool, timeout: float) -> Standing:
        io = self._io
        deadline = io.now() + timeout
        if io.blocking:  # `io.call` would do the same, with one more coroutine
            return self._enter(ticket, if_free, deadline)
        return await io.call(self._enter, ticket, if_free, deadline)

    def _enter(self, ticket: Ticket, if_free: bool, deadline: float) -> Standing:
        sweep = is_sweep_due()
        if self._uncontended and not sweep:
            free = self._file.transact(ONE_STATEMENT, deadline, ticket.name, take, ticket)
            if free is not None:
                return free
        listen = self._listener.listen
        standing = self._file.transact(
            WRITE, deadline, ticket.name, Operations.enter, ticket, if_free, listen, sweep
        )
        self._uncontended = standing.place is ADMITTED
        return standing

    async def enter_free(self, tickets: Sequence[Ticket], *, timeout: float) -> list[Standing]:
        listen = self._listener.listen
        return await self._transact(WRITE, timeout, None, Operations.enter_free, tickets, listen)

    async def renew(self, tickets: Sequence[Ticket], *, timeout: float) -> list[Standing | None]:
        return await self._transact(WRITE, timeout, None, Operations.renew, tickets)

    async def leave(
        self, ticket: Ticket, *, timeout: float, departure: Departure = Departure.RELEASED
    ) -> bool:
        io = self._io
        deadline = io.now() + timeout
        if io.blocking:
            return self._leave(ticket, departure, deadline)
        return await io.call(self._leave, ticket, departure, deadline)

    def _leave(self, ticket: Ticket, departure: Departure, deadline: float) -> bool:
        self._listener.leaving(ticket.id)
        file, name = self._file, ticket.name
        try:
            # `give_back` can't store that the name is abandoned, so a lost ticket takes the other way.
            simply = self._uncontended and departure is not Departure.LOST
            if simply and file.transact(ONE_STATEMENT, deadline, name, give_back, ticket):
                return True
            return file.transact(WRITE, deadline, name, Operations.leave, ticket, departure)
        except Unsupported:
            return False  # a file that can't be opened has no tickets in it

    async def leave_all(self, tickets: Sequence[Ticket], *, timeout: float) -> list[bool]:
        for ticket in tickets:
            self._listener.leaving(ticket.id)
        return await self._transact(WRITE, timeout, None, Operations.leave_all, tickets)

    async def park(self, ticket: Ticket, until: float) -> Standing | None:
        return await self._listener.park(ticket.id, until)

    def unpark(self, ticket: Ticket) -> None:
        self._listener.drop(ticket.id)

    def interrupt(self, ticket: Ticket) -> None:
        self._listener.interrupt(ticket.id)

    async def remember(self, ticket: Ticket, text: str, *, keep: float, timeout: float) -> bool:
        io = self._io
        return await io.call(self._remember, ticket, text, keep, io.now() + timeout)

    def _remember(self, ticket: Ticket, text: str, keep: float, deadline: float) -> bool:
        file, name = self._file, ticket.name
        stored = file.transact(WRITE, deadline, name, Operations.remember, ticket, text, keep)
        if stored:
            file.sync(name)
        return stored

    async def recall(self, name: str, *, timeout: float) -> str | None:
        return await self._transact(READ, timeout, name, Operations.recall, name)

    async def inspect(self, name: str, *, limit: int, timeout: float) -> Inspection:
        return await self._transact(WRITE, timeout, name, Operations.inspect, name, limit)

    async def ping(self, *, timeout: float) -> None:
        await self.recall(PINGED, timeout=timeout)  # unlike `inspect`, it does not wait for writers

    async def names(self, pattern: str, *, timeout: float) -> list[str]:
        return await self._transact(READ, timeout, None, Operations.names, pattern)

    async def evict(self, name: str, *, timeout: float) -> bool:
        return await self._transact(WRITE, timeout, name, Operations.evict, name)

    async def diagnose(self, *, timeout: float, probe: bool = False) -> list[Server]:
        from fencelock.engines.sqlite.diagnosis import describe  # few programs need it

        return [await describe(self._file, self._io)]

    async def close(self) -> None:
        self._listener.close()
        await self._io.call(self._file.close)

    async def _transact(
        self, begin: str, timeout: float, name: str | None, act: Callable[..., T], *args: Any
    ) -> T:
        io = self._io
        return await io.call(self._file.transact, begin, io.now() + timeout, name, act, *args)


def open_sqlite(url: Url, io: IO) -> SqliteEngine:
    """`sqlite:///relative.db` or `sqlite:////absolute/path.db`. The file is made at its first use."""
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
    # Absolute from now on: a program that changes its working folder must keep using this file.
    return SqliteEngine(str(Path(url.folder, path).absolute()), io)
