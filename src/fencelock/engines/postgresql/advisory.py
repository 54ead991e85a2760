"""The engine over PostgreSQL's own advisory locks."""

from __future__ import annotations

from fencelock.core.url import Url
from fencelock.engines.postgresql.errors import ERRORS
from fencelock.engines.postgresql.requests import SessionRequests
from fencelock.engines.postgresql.server import Server
from fencelock.engines.postgresql.urls import Target, target_of
from fencelock.engines.postgresql.wire import Wire
from fencelock.engines.sql.options import heartbeat_of
from fencelock.engines.sql.sessions import SessionsEngine, session_traits
from fencelock.io.contract import IO


class AdvisoryEngine(SessionsEngine[Wire]):
    """Session locks of a PostgreSQL database."""

    traits = session_traits("standby")

    def __init__(self, target: Target, heartbeat: float, io: IO) -> None:
        server = Server(target._replace(sessions=True), io)
        super().__init__(target.where, io, server, heartbeat, ERRORS)
        self._requests = SessionRequests(target.schema)


def open_advisory(url: Url, io: IO) -> AdvisoryEngine:
    """Open `postgresql+advisory://user:password@host:5432/database`; see docs/engines/postgresql.md."""
    return AdvisoryEngine(target_of(url, "heartbeat"), heartbeat_of(url), io)
