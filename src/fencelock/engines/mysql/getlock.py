"""The engine over MySQL's own GET_LOCK."""

from __future__ import annotations

from fencelock.core.url import Url
from fencelock.engines.mysql.errors import ERRORS
from fencelock.engines.mysql.requests import SessionRequests
from fencelock.engines.mysql.server import Server
from fencelock.engines.mysql.urls import Target, target_of
from fencelock.engines.mysql.wire import Wire
from fencelock.engines.sql.options import heartbeat_of
from fencelock.engines.sql.sessions import SessionsEngine, session_traits
from fencelock.io.contract import IO


class GetLockEngine(SessionsEngine[Wire]):
    """Session locks of a MySQL or MariaDB server."""

    traits = session_traits("replica")

    def __init__(self, target: Target, heartbeat: float, io: IO) -> None:
        server = Server(target, io, sessions=True)
        super().__init__(target.where, io, server, heartbeat, ERRORS)
        scope = f"{target.settings['database']} {target.prefix}"
        self._requests = SessionRequests(target.prefix, scope)


def open_getlock(url: Url, io: IO) -> GetLockEngine:
    """Open `mysql+getlock://user:password@host:3306/database`; see docs/engines/mysql.md."""
    return GetLockEngine(target_of(url, "heartbeat"), heartbeat_of(url), io)
