"""The engine over PostgreSQL's own advisory locks."""

from __future__ import annotations

from fencelock.core.url import Url
from fencelock.engines.contract import Traits
from fencelock.engines.postgresql.errors import ERRORS
from fencelock.engines.postgresql.requests import SessionRequests
from fencelock.engines.postgresql.server import Server
from fencelock.engines.postgresql.urls import Target, target_of
from fencelock.engines.postgresql.wire import Wire
from fencelock.engines.sql.options import heartbeat_of
from fencelock.engines.sql.sessions import SessionsEngine
from fencelock.io.contract import IO


class AdvisoryEngine(SessionsEngine[Wire]):
    """Session locks of a PostgreSQL database."""

    traits = Traits(
        guarantee="efficiency",
        fencing=(
            "max(previous + 1, the server's clock in µs) in a row that is committed before the lock "
            "is used; after a lagging standby is promoted, a fence may be given twice, or be lower if its "
            "clock is behind"
        ),
        clock="none: a lock lasts as long as its connection",
        fenced_while_waiting=False,
    )

    def __init__(self, target: Target, heartbeat: float, io: IO) -> None:
        server = Server(target._replace(sessions=True), io)
        super().__init__(target.where, io, server, heartbeat, ERRORS)
        self._requests = SessionRequests(target.schema)


def open_advisory(url: Url, io: IO) -> AdvisoryEngine:
    """Open `postgresql+advisory://user:password@host:5432/database`; see docs/engines/postgresql.md."""
    return AdvisoryEngine(target_of(url, "heartbeat"), heartbeat_of(url), io)
