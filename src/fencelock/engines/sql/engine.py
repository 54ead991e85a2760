"""What every engine on a SQL database does: it asks over a pool of connections, one request each time."""

from __future__ import annotations

from typing import Generic, TypeVar

from fencelock.core.backoff import Backoff
from fencelock.core.names import matches
from fencelock.core.ticket import Inspection
from fencelock.engines.contract import Engine
from fencelock.engines.sql.answers import inspection_of
from fencelock.engines.sql.broken import DatabaseFailed
from fencelock.engines.sql.database import Calls, Request, Server, Troubles, Wire
from fencelock.engines.sql.pool import Pool
from fencelock.io.contract import IO

W = TypeVar("W", bound=Wire)

_MOST = 2**31 - 1
"""What an int holds in a database."""

_CREATING = 15.0
"""Seconds that tables and functions may take to be created."""


class SqlEngine(Engine, Generic[W]):
    """Questions and their answers, whatever the lock is made of."""

    _calls: Calls

    def __init__(
        self, where: str, io: IO, server: Server[W], connections: int, troubles: Troubles
    ) -> None:
        self._where = where
        self._io = io
        self._server = server
        self._pool = Pool(server.connect, io, connections)
        self._troubles = troubles

    async def inspect(self, name: str, *, limit: int, timeout: float) -> Inspection:
        request = self._calls.inspect(name, min(limit, _MOST))
        return inspection_of(name, await self._call(request, timeout, name))

    async def names(self, pattern: str, *, timeout: float) -> list[str]:
        names = await self._call(self._calls.names(), timeout, None)
        return sorted(name for name in names if matches(name, pattern))

    async def evict(self, name: str, *, timeout: float) -> bool:
        return await self._call(self._calls.evict(name), timeout, name) == ["1"]

    async def _call(self, request: Request, timeout: float, name: str | None) -> list[str]:
        try:
            return await self._ask(request, timeout)
        except DatabaseFailed as error:
            raise self._troubles.translated(error, self._where, name) from error

    async def _ask(self, request: Request, timeout: float) -> list[str]:
        """Ask once; again only if it was certainly not carried out, and there is hope and time."""
        io = self._io
        deadline = io.now() + timeout
        backoff: Backoff | None = None
        while True:
            wire = await self._pool.take(deadline - io.now())
            try:
                return await wire.call(request, deadline - io.now())
            except DatabaseFailed as error:
                if error.code in self._troubles.not_there:
                    return await self._once_installed(wire, request, deadline)
                if error.code not in self._troubles.try_again:
                    raise
                backoff = backoff or Backoff(0.002, 0.1, io.random)
                pause = backoff.next()
                if io.now() + pause >= deadline:
                    raise
            finally:
                self._pool.give(wire)
            await io.event().wait(pause)

    async def _once_installed(self, wire: W, request: Request, deadline: float) -> list[str]:
        """Create what we rely on, and ask once more.

        That happens once in the life of a database, and may take its time: it would be undone otherwise,
        and begun anew by the next one.
        """
        began = self._io.now()
        await self._server.install(wire, max(deadline - began, _CREATING))
        return await wire.call(request, deadline - began)
