"""What a connection to a database raises."""

from __future__ import annotations

from fencelock.core.errors import Outcome


class Broken(Exception):
    """A request that failed: whether it may have been applied, and the database's code for why."""

    def __init__(self, message: str, outcome: Outcome, code: str = "") -> None:
        super().__init__(message)
        self.outcome: Outcome = outcome
        self.code = code
