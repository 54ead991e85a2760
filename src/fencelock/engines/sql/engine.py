"""What every engine on a SQL database does: it sends requests over a pool of connections."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Generic

from fencelock.core.backoff import Backoff
from fencelock.core.errors import EngineError
from fencelock.core.names import matches
from fencelock.core.ticket import Inspection
from fencelock.engines.contract import Engine
from fencelock.engines.failure import RequestFailed, translated
from fencelock.engines.sql.database import Errors, Server, W
from fencelock.engines.sql.pool import Pool
from fencelock.engines.sql.requests import Request, Requests, inspection_of
from fencelock.io.contract import IO

if TYPE_CHECKING:
    from fencelock.engines import diagnosis

_MAX_INT = 2**31 - 1
"""The largest number that an int of a database can hold."""

_INSTALL_TIMEOUT = 15.0
"""Seconds that the creation of tables and functions may take at least."""


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

    @translated
    async def inspect(self, name: str, *, limit: int, timeout: float) -> Inspection:
        request = self._requests.inspect(name, min(limit, _MAX_INT))
        return inspection_of(name, await self._ask(request, timeout))

    @translated
    async def names(self, pattern: str, *, timeout: float) -> list[str]:
        names = await self._ask(self._requests.names(), timeout)
        return sorted(name for name in names if matches(name, pattern))

    @translated
    async def evict(self, name: str, *, timeout: float) -> bool:
        return await self._ask(self._requests.evict(name), timeout) == ["1"]

    async def diagnose(self, *, timeout: float, probe: bool = False) -> Sequence[diagnosis.Server]:
        return await self._server.describe(self._io, timeout)

    def _translated(self, error: RequestFailed, name: str | None) -> EngineError:
        return self._errors.translate(error, self._where, name)

    async def _ask(self, request: Request, timeout: float) -> list[str]:
        """Send a request. Retries only if the server certainly did not apply it and time is left."""
        io = self._io
        deadline = io.now() + timeout
        backoff: Backoff | None = None
        while True:
            wire = await self._pool.take(deadline - io.now())
            try:
                return await self._ask_in(wire, request, deadline)
            except RequestFailed as error:
                if error.code not in self._errors.retriable:
                    raise
                backoff = backoff or Backoff(0.002, 0.1, io.random)
                pause = backoff.next()
                if io.now() + pause >= deadline:
                    raise
            finally:
                self._pool.give(wire)
            await io.event().wait(pause)

    async def _ask_in(self, wire: W, request: Request, deadline: float) -> list[str]:
        """Send a request over this connection. If tables or functions are missing, create them first.

        That happens once in the life of a database, and may take longer than the request's timeout.
        Otherwise the server would undo it, and the next client would begin again.
        """
        try:
            return await wire.call(request, deadline - self._io.now())
        except RequestFailed as error:
            if error.code not in self._errors.missing:
                raise
        began = self._io.now()
        await self._server.install(wire, max(deadline - began, _INSTALL_TIMEOUT))
        return await wire.call(request, deadline - began)
