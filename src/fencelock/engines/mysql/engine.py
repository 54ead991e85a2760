"""The MySQL and MariaDB engine: lease rows, one procedure call per operation."""

from __future__ import annotations

from fencelock.core.url import Url
from fencelock.engines.contract import Traits
from fencelock.engines.mysql.calls import RowCalls
from fencelock.engines.mysql.ears import Ears
from fencelock.engines.mysql.server import Server
from fencelock.engines.mysql.troubles import TROUBLES
from fencelock.engines.mysql.urls import Target, target_of
from fencelock.engines.mysql.wire import Wire
from fencelock.engines.sql.rows import RowsEngine
from fencelock.io.contract import IO


class MysqlEngine(RowsEngine[Wire]):
    """Queues in tables of a MySQL or MariaDB database."""

    traits = Traits(
        guarantee="correctness",
        fencing=(
            "max(previous + 1, the server's clock in µs), committed before it is used; falls only if the "
            "newest commits are lost, as when a replica that lags behind is promoted, and the clock of the "
            "server that goes on is behind; one may then be handed out twice, so guards compare (fence, id)"
        ),
        clock="the MySQL server's wall clock",
        supports_sharing=True,
        supports_notes=True,
        condition=(
            "the database is one server that flushes each commit (innodb_flush_log_at_trx_commit = 1), no "
            "replica that lags behind is promoted, and the server's wall clock is never set forward"
        ),
    )

    def __init__(self, target: Target, io: IO) -> None:
        server = Server(target, io)
        super().__init__(target.where, io, server, target.connections, TROUBLES)
        self._calls = calls = RowCalls(target.prefix)
        self._ears = Ears(server, calls, self._ask, io)


def open_mysql(url: Url, io: IO) -> MysqlEngine:
    """`mysql://user:password@host:3306/database`; see docs/engines/mysql.md."""
    return MysqlEngine(target_of(url), io)
