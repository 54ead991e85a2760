"""The engines on PostgreSQL: over lease rows with wake-ups by NOTIFY, and over its own advisory locks."""

from __future__ import annotations

from collections.abc import Sequence

from fencelock.core.ticket import Standing, Ticket
from fencelock.core.url import Url
from fencelock.engines.failure import translated
from fencelock.engines.postgresql.errors import ERRORS
from fencelock.engines.postgresql.listener import Listener
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
