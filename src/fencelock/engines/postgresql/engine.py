"""The PostgreSQL engine: lease rows, one function call per operation, wake-ups by NOTIFY."""

from __future__ import annotations

from collections.abc import Sequence

from fencelock.core.ticket import Standing, Ticket
from fencelock.core.url import Url
from fencelock.engines.contract import Traits
from fencelock.engines.postgresql.errors import ERRORS
from fencelock.engines.postgresql.listener import Listener
from fencelock.engines.postgresql.requests import RowRequests
from fencelock.engines.postgresql.server import Server
from fencelock.engines.postgresql.urls import Target, target_of
from fencelock.engines.postgresql.wire import Wire
from fencelock.engines.sql.answers import standing_of
from fencelock.engines.sql.engine import only_name
from fencelock.engines.sql.rows import RowsEngine
from fencelock.io.contract import IO


class PostgresqlEngine(RowsEngine[Wire]):
    """Queues in tables of a PostgreSQL database."""

    traits = Traits(
        guarantee="correctness",
        fencing=(
            "max(previous + 1, the server's clock in µs), committed before it is used; falls only if the "
            "newest commits are lost, as when a lagging standby is promoted, and the clock of the new "
            "server is behind; a fence may then be given twice, so guards compare (fence, id)"
        ),
        clock="the PostgreSQL server's wall clock",
        supports_sharing=True,
        supports_notes=True,
        condition=(
            "the database is one server with fsync on, or only a synchronous standby is ever promoted, after "
            "the old primary has ended; and the server's wall clock is never set forward"
        ),
    )

    _requests: RowRequests

    def __init__(self, target: Target, io: IO) -> None:
        server = Server(target, io)
        super().__init__(target.where, io, server, target.connections, ERRORS)
        self._requests = requests = RowRequests(target.schema)
        self._listener = Listener(server, requests, self._ask, io)

    async def enter_free(self, tickets: Sequence[Ticket], *, timeout: float) -> list[Standing]:
        request = self._requests.enter_free(tickets, self._listener.channel)
        answers = await self._call(request, timeout, only_name(tickets))
        return [standing_of(line) for line in answers]


def open_postgresql(url: Url, io: IO) -> PostgresqlEngine:
    """Open `postgresql://user:password@host:5432/database`; see docs/engines/postgresql.md."""
    return PostgresqlEngine(target_of(url), io)
