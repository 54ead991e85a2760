"""PostgreSQL's own advisory locks behind the same contract."""

from __future__ import annotations

from fencelock.core.url import Url
from fencelock.engines.contract import Traits
from fencelock.engines.postgresql.calls import SessionCalls
from fencelock.engines.postgresql.server import Server
from fencelock.engines.postgresql.troubles import TROUBLES
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
            "is used; promoting a standby that lags behind may hand out one fence twice, or a lower one "
            "if its clock is behind"
        ),
        clock="none: a lock lasts as long as its connection",
        fenced_while_waiting=False,
    )

    def __init__(self, target: Target, heartbeat: float, io: IO) -> None:
        server = Server(target._replace(patient=True), io)
        super().__init__(target.where, io, server, heartbeat, TROUBLES)
        self._calls = SessionCalls(target.schema)


def open_advisory(url: Url, io: IO) -> AdvisoryEngine:
    """`postgresql+advisory://user:password@host:5432/database`; see docs/engines/postgresql.md."""
    return AdvisoryEngine(target_of(url, "heartbeat"), heartbeat_of(url), io)
