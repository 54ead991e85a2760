"""The PostgreSQL engine: lease rows, one function call per operation, wake-ups by NOTIFY."""

from __future__ import annotations

from holdfast.core.url import Url
from holdfast.engines.contract import Traits
from holdfast.engines.postgresql.calls import row_calls
from holdfast.engines.postgresql.ears import Ears
from holdfast.engines.postgresql.server import Server
from holdfast.engines.postgresql.troubles import TROUBLES
from holdfast.engines.postgresql.urls import Target, target_of
from holdfast.engines.postgresql.wire import Wire
from holdfast.engines.sql.rows import RowsEngine
from holdfast.io.contract import IO


class PostgresqlEngine(RowsEngine[Wire]):
    """Queues in tables of a PostgreSQL database."""

    traits = Traits(
        guarantee="correctness",
        fencing=(
            "max(previous + 1, the server's clock in µs), committed before it is used; promoting a "
            "standby that lags behind may hand out one fence twice, so guards compare (fence, id); "
            "falls only if the newest commits are lost and the clock is set back as well"
        ),
        clock="the PostgreSQL server's wall clock",
        sharing=True,
    )

    def __init__(self, target: Target, io: IO) -> None:
        server = Server(target, io)
        super().__init__(target.where, io, server, target.connections, TROUBLES)
        self._calls = calls = row_calls(target.schema)
        self._ears = Ears(server, calls, self._ask, io)


def open_postgresql(url: Url, io: IO) -> PostgresqlEngine:
    """`postgresql://user:password@host:5432/database`; see docs/engines/postgresql.md."""
    return PostgresqlEngine(target_of(url), io)
