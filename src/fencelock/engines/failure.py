"""How a request to a server fails, inside an engine. Callers of an engine see `EngineError` instead."""

from __future__ import annotations

from fencelock.core.errors import Outcome


class RequestFailed(Exception):
    """A request got no usable answer. `outcome` says whether the server may have applied it."""

    def __init__(self, message: str, outcome: Outcome) -> None:
        super().__init__(message)
        self.outcome: Outcome = outcome
