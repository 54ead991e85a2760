"""Every way in which a request can fail, as a `Problem` with a status code. The only such table."""

from __future__ import annotations

import logging

import msgspec

from fencelock.core.errors import EngineError, LockTimeout, StaleFence, UnsafeEngine, Unsupported
from fencelock.engines.http.wire import Problem
from fencelock.guards.http import PREFIX, PROBLEMS

log = logging.getLogger("fencelock.service")

TITLES: dict[str, tuple[int, str]] = {
    **PROBLEMS,
    "unauthorized": (401, "A valid token is needed"),
    "forbidden": (403, "This token may not do that"),
    "not-found": (404, "There is nothing at this path"),
    "method-not-allowed": (405, "This path has no such method"),
    "held": (409, "Somebody else holds the lock"),
    "gone": (410, "The lease is gone: stop working"),
    "unsafe-engine": (412, "The engine can't give the guarantee that was asked for"),
    "too-slow": (408, "The request did not arrive in time"),
    "too-large": (413, "The request is too large"),
    "not-json": (415, "The body must be JSON"),
    "unsupported": (422, "The engine can't do that"),
    "limited": (429, "Too much at once"),
    "internal": (500, "A fault of the service"),
    "draining": (503, "This replica is about to end: ask another one"),
    "overloaded": (503, "This replica has too much to do"),
    "engine-away": (503, "The engine did not answer, and has not acted"),
    "engine-unknown": (504, "The engine did not answer, and may have acted"),
}


class Refused(Exception):
    """A request that the service itself refuses."""

    def __init__(
        self,
        kind: str,
        detail: str,
        *,
        retry_after: float | None = None,
        name: str | None = None,
        limit: str = "",
    ) -> None:
        super().__init__(detail)
        self.kind = kind
        self.retry_after = retry_after
        self.name = name
        self.limit = limit
        """The setting that was the reason, if a limit was."""
        self.noted = False


def problem(kind: str, detail: str = "", **fields: object) -> Problem:
    """The problem of this kind."""
    status, title = TITLES[kind]
    return Problem(PREFIX + kind, title, status, detail, **fields)  # type: ignore[arg-type]


def problem_of(error: Exception) -> Problem:
    """What to tell the client about an error. What is our own fault is logged, and not shown."""
    match error:
        case Refused():
            return problem(error.kind, str(error), retry_after=error.retry_after, name=error.name)
        case EngineError(outcome="not applied"):
            return problem("engine-away", str(error), outcome="not applied", name=error.name)
        case EngineError():
            return problem("engine-unknown", str(error), outcome="unknown", name=error.name)
        case Unsupported():
            return problem(
                "unsupported", str(error), name=error.name, longest_ttl=error.longest_ttl
            )
        case UnsafeEngine():
            return problem("unsafe-engine", str(error))
        case LockTimeout():
            return problem("held", str(error), name=error.name)
        case StaleFence():
            given, newest = str(error.given), str(error.newest)
            return problem("stale-fence", str(error), name=error.name, given=given, newest=newest)
        case RecursionError():
            return problem("malformed", "the JSON is nested too deeply")
        case msgspec.ValidationError() | msgspec.DecodeError() | ValueError() | TypeError():
            return problem("malformed", str(error))
    log.error("a request failed because of a fault in the service", exc_info=error)
    return problem("internal", "the log of the service says more", outcome="unknown")
