"""What every engine on a SQL database does: it sends requests over a pool of connections."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Generic, NamedTuple

from fencelock.core.backoff import Backoff
from fencelock.core.names import matches
from fencelock.core.ticket import Inspection, Ticket
from fencelock.engines.contract import Engine
from fencelock.engines.sql.answers import inspection_of
from fencelock.engines.sql.database import Errors, Request, Requests, Server, W
from fencelock.engines.sql.failure import DatabaseFailed
from fencelock.engines.sql.pool import Pool
from fencelock.io.contract import IO

_MAX_INT = 2**31 - 1
"""The largest number that an int of a database can hold."""

_INSTALL_TIMEOUT = 15.0
"""Seconds that the creation of tables and functions may take at least."""


class _Translation(NamedTuple):
    """Turns a `DatabaseFailed` into an `EngineError`. Not a `@contextmanager`: those are slower."""

    errors: Errors
    where: str
    name: str | None

    def __enter__(self) -> None: ...

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        if isinstance(error, DatabaseFailed):
            raise self.errors.translate(error, self.where, self.name) from error


class SqlEngine(Engine, Generic[W]):
    """The operations that do not depend on what the lock is made of."""

    _requests: Requests

    def __init__(
        self, where: str, io: IO, server: Server[W], connections: int, errors: Errors
    ) -> None:
        self._where = where
        self._io = io
        self._server = server
        self._pool = Pool(server.connect, io, connections)
        self._errors = errors

    async def inspect(self, name: str, *, limit: int, timeout: float) -> Inspection:
        request = self._requests.inspect(name, min(limit, _MAX_INT))
        return inspection_of(name, await self._call(request, timeout, name))

    async def names(self, pattern: str, *, timeout: float) -> list[str]:
        names = await self._call(self._requests.names(), timeout, None)
        return sorted(name for name in names if matches(name, pattern))

    async def evict(self, name: str, *, timeout: float) -> bool:
        return await self._call(self._requests.evict(name), timeout, name) == ["1"]

    def _translated(self, name: str | None) -> _Translation:
        """Every operation runs inside this."""
        return _Translation(self._errors, self._where, name)

    async def _call(self, request: Request, timeout: float, name: str | None) -> list[str]:
        with self._translated(name):
            return await self._ask(request, timeout)

    async def _ask(self, request: Request, timeout: float) -> list[str]:
        """Send a request. Retries only if the server certainly did not apply it and time is left."""
        io = self._io
        deadline = io.now() + timeout
        backoff: Backoff | None = None
        while True:
            wire = await self._pool.take(deadline - io.now())
            try:
                return await wire.call(request, deadline - io.now())
            except DatabaseFailed as error:
                if error.code in self._errors.missing:
                    return await self._install_and_ask(wire, request, deadline)
                if error.code not in self._errors.retriable:
                    raise
                backoff = backoff or Backoff(0.002, 0.1, io.random)
                pause = backoff.next()
                if io.now() + pause >= deadline:
                    raise
            finally:
                self._pool.give(wire)
            await io.event().wait(pause)

    async def _install_and_ask(self, wire: W, request: Request, deadline: float) -> list[str]:
        """Create the tables and functions, and send the request once more.

        This happens once in the life of a database, and may take longer than the request's timeout.
        Otherwise the server would undo it, and the next client would begin again.
        """
        began = self._io.now()
        await self._server.install(wire, max(deadline - began, _INSTALL_TIMEOUT))
        return await wire.call(request, deadline - began)


def only_name(tickets: Sequence[Ticket]) -> str | None:
    """The name for an error about these tickets, if there is only one."""
    return tickets[0].name if len(tickets) == 1 else None
