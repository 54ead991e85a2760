"""The PostgreSQL engine: lease rows, one function call per operation, wake-ups by NOTIFY."""

from __future__ import annotations

from collections.abc import Sequence

from fencelock.core.ticket import Standing, Ticket
from fencelock.core.url import Url
from fencelock.engines.contract import Traits
from fencelock.engines.postgresql.calls import RowCalls, row_calls
from fencelock.engines.postgresql.ears import Ears
from fencelock.engines.postgresql.server import Server
from fencelock.engines.postgresql.troubles import TROUBLES
from fencelock.engines.postgresql.urls import Target, target_of
from fencelock.engines.postgresql.wire import Wire
from fencelock.engines.sql.answers import standing_of
from fencelock.engines.sql.rows import RowsEngine
from fencelock.io.contract import IO


class PostgresqlEngine(RowsEngine[Wire]):
    """Queues in tables of a PostgreSQL database."""

    traits = Traits(
        guarantee="correctness",
        fencing=(
            "max(previous + 1, the server's clock in µs), committed before it is used; falls only if the "
            "newest commits are lost, as when a standby that lags behind is promoted, and the clock of the "
            "server that goes on is behind; one may then be handed out twice, so guards compare (fence, id)"
        ),
        clock="the PostgreSQL server's wall clock",
        supports_sharing=True,
        supports_notes=True,
        condition=(
            "the database is one server with fsync on, or only a synchronous standby is ever promoted, after "
            "the old primary has ended; and the server's wall clock is never set forward"
        ),
    )

    _calls: RowCalls

    def __init__(self, target: Target, io: IO) -> None:
        server = Server(target, io)
        super().__init__(target.where, io, server, target.connections, TROUBLES)
        self._calls = calls = row_calls(target.schema)
        self._ears = Ears(server, calls, self._ask, io)

    async def enter_free(self, tickets: Sequence[Ticket], *, timeout: float) -> list[Standing]:
        request = self._calls.enter_free(tickets, self._ears.channel)
        name = tickets[0].name if len(tickets) == 1 else None
        return [standing_of(line) for line in await self._call(request, timeout, name)]


def open_postgresql(url: Url, io: IO) -> PostgresqlEngine:
    """`postgresql://user:password@host:5432/database`; see docs/engines/postgresql.md."""
    return PostgresqlEngine(target_of(url), io)
