"""The engines on PostgreSQL: over lease rows with wake-ups by NOTIFY, and over its own advisory locks."""

from __future__ import annotations

from collections.abc import Sequence

from fencelock.core.ticket import Departure, Place, Standing, Ticket
from fencelock.core.url import Url
from fencelock.engines.failure import RequestFailed, translated
from fencelock.engines.postgresql.errors import ERRORS
from fencelock.engines.postgresql.listener import Listener
from fencelock.engines.postgresql.markers import Markers
from fencelock.engines.postgresql.requests import RowRequests, SessionRequests
from fencelock.engines.postgresql.server import Server
from fencelock.engines.postgresql.urls import Target, target_of
from fencelock.engines.postgresql.wire import Wire
from fencelock.engines.sql.requests import standing_of
from fencelock.engines.sql.rows import RowsEngine, row_traits
from fencelock.engines.sql.sessions import SessionsEngine, heartbeat_of, session_traits
from fencelock.io.contract import IO


class PostgresqlEngine(RowsEngine[Wire]):
    """Queues in tables of a PostgreSQL database."""

    traits = row_traits(
        "PostgreSQL",
        "standby",
        condition="the database is one server with fsync on, or only a synchronous standby is ever promoted, "
        "after the old primary has ended; and the server's wall clock is never set forward",
    )

    _requests: RowRequests

    def __init__(self, target: Target, io: IO) -> None:
        server = Server(target, io)
        super().__init__(target.where, io, server, target.connections, ERRORS)
        self._requests = requests = RowRequests(target.schema)
        self._listener = Listener(server, requests, self._ask, io)
        # The other connections are for requests that can't wait for a holder.
        self._markers = Markers(self._pool, requests, io, target.connections // 2)

    async def enter(self, ticket: Ticket, *, if_free: bool, timeout: float) -> Standing:
        markers = self._markers
        if if_free or not markers.can_have(ticket):
            return await super().enter(ticket, if_free=if_free, timeout=timeout)
        deadline = self._io.now() + timeout
        if not markers.crowded():
            standing = await super().enter(ticket, if_free=True, timeout=timeout)
            if standing.place is not Place.REFUSED:
                return standing
        return await self._enter_crowd(ticket, deadline)

    @translated
    async def _enter_crowd(self, ticket: Ticket, deadline: float) -> Standing:
        try:
            standing = await self._markers.enter(ticket, deadline - self._io.now())
        except RequestFailed as error:
            if error.code not in self._errors.retriable + self._errors.missing:
                raise
            standing = None
        if standing is not None:
            return standing
        return await super().enter(ticket, if_free=False, timeout=deadline - self._io.now())

    async def _enter(self, ticket: Ticket, if_free: bool, timeout: float) -> Standing:
        if ticket.id not in self._markers:
            return await super()._enter(ticket, if_free, timeout)
        request = self._requests.join(ticket, self._listener.channel, if_free)
        (answer,) = await self._ask(request, timeout)
        return standing_of(answer)

    @translated
    async def park(self, ticket: Ticket, until: float) -> Standing | None:
        markers = self._markers
        if markers.waits(ticket.id):
            return await markers.wait(ticket, until)
        ends = markers.ends(ticket.id)
        standing = await super().park(ticket, min(until, ends))
        if standing is None and ends <= self._io.now() < until:
            await markers.thin_out()
            standing = await super().park(ticket, until)
        return standing

    @translated
    async def leave(
        self, ticket: Ticket, *, timeout: float, departure: Departure = Departure.RELEASED
    ) -> bool:
        deadline = self._io.now() + timeout
        left = await self._markers.leave(ticket, departure, timeout)
        if left is None:
            left = await super().leave(
                ticket, timeout=deadline - self._io.now(), departure=departure
            )
        return left

    async def renew(self, tickets: Sequence[Ticket], *, timeout: float) -> list[Standing | None]:
        standings = await super().renew(tickets, timeout=timeout)
        await self._markers.thin_out()
        return standings

    async def close(self) -> None:
        self._markers.close()
        await super().close()

    @translated
    async def enter_free(self, tickets: Sequence[Ticket], *, timeout: float) -> list[Standing]:
        request = self._requests.enter_free(tickets, self._listener.channel)
        return [standing_of(line) for line in await self._ask(request, timeout)]


class AdvisoryEngine(SessionsEngine[Wire]):
    """PostgreSQL's own advisory locks, which belong to a session."""

    traits = session_traits("standby")

    def __init__(self, target: Target, heartbeat: float, io: IO) -> None:
        server = Server(target._replace(sessions=True), io)
        super().__init__(target.where, io, server, heartbeat, ERRORS)
        self._requests = SessionRequests(target.schema)


def open_postgresql(url: Url, io: IO) -> PostgresqlEngine:
    """Open `postgresql://user:password@host:5432/database`; see docs/engines/postgresql.md."""
    return PostgresqlEngine(target_of(url), io)


def open_advisory(url: Url, io: IO) -> AdvisoryEngine:
    """Open `postgresql+advisory://user:password@host:5432/database`; see docs/engines/postgresql.md."""
    return AdvisoryEngine(target_of(url, "heartbeat"), heartbeat_of(url), io)
