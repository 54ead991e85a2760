"""The engines on MySQL and MariaDB: over lease rows, and over the server's own GET_LOCK."""

from __future__ import annotations

from fencelock.core.url import Url
from fencelock.engines.mysql.errors import ERRORS
from fencelock.engines.mysql.listener import Listener
from fencelock.engines.mysql.requests import RowRequests, SessionRequests
from fencelock.engines.mysql.server import Server
from fencelock.engines.mysql.urls import Target, target_of
from fencelock.engines.mysql.wire import Wire
from fencelock.engines.sql.rows import RowsEngine, row_traits
from fencelock.engines.sql.sessions import SessionsEngine, heartbeat_of, session_traits
from fencelock.io.contract import IO


class MysqlEngine(RowsEngine[Wire]):
    """Queues in tables of a MySQL or MariaDB database."""

    traits = row_traits(
        "MySQL",
        "replica",
        condition="the database is one server that flushes each commit (innodb_flush_log_at_trx_commit = 1), "
        "no lagging replica is promoted, and the server's wall clock is never set forward",
    )

    def __init__(self, target: Target, io: IO) -> None:
        server = Server(target, io)
        super().__init__(target.where, io, server, target.connections, ERRORS)
        self._requests = requests = RowRequests(target.prefix)
        self._listener = Listener(server, requests, self._ask, io)


class GetLockEngine(SessionsEngine[Wire]):
    """MySQL's own GET_LOCK, which belongs to a session."""

    traits = session_traits("replica")

    def __init__(self, target: Target, heartbeat: float, io: IO) -> None:
        server = Server(target, io, sessions=True)
        super().__init__(target.where, io, server, heartbeat, ERRORS)
        scope = f"{target.settings['database']} {target.prefix}"
        self._requests = SessionRequests(target.prefix, scope)


def open_mysql(url: Url, io: IO) -> MysqlEngine:
    """Open `mysql://user:password@host:3306/database`; see docs/engines/mysql.md."""
    return MysqlEngine(target_of(url), io)


def open_getlock(url: Url, io: IO) -> GetLockEngine:
    """Open `mysql+getlock://user:password@host:3306/database`; see docs/engines/mysql.md."""
    return GetLockEngine(target_of(url, "heartbeat"), heartbeat_of(url), io)
