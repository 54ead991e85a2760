"""What a connection to a database raises."""

from __future__ import annotations

from fencelock.core.errors import Outcome
from fencelock.engines.failure import RequestFailed


class DatabaseFailed(RequestFailed):
    """A request to a database failed; `code` is the database's own code for why."""

    def __init__(self, message: str, outcome: Outcome, code: str = "") -> None:
        super().__init__(message, outcome)
        self.code = code
