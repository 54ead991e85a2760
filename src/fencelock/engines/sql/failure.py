"""How a request to a database fails, inside an engine."""

from __future__ import annotations

from fencelock.core.errors import Outcome
from fencelock.engines.failure import RequestFailed


class DatabaseFailed(RequestFailed):
    """A request to a database failed. `code` is the database's own error code, or ""."""

    def __init__(self, message: str, outcome: Outcome, code: str = "") -> None:
        super().__init__(message, outcome)
        self.code = code


def client_closed() -> DatabaseFailed:
    """The error for a request of a client that was closed."""
    return DatabaseFailed("the client was closed", "not applied")
