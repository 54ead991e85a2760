"""Starlette, and everything built on it: what a client of a web program hears when a lock is not there.

Endpoints need nothing special: they use `async with client.lock(…)` or `@client.locked(…)`.
"""

from __future__ import annotations

import logging
from functools import partial
from typing import Any

from starlette.applications import Starlette
from starlette.requests import HTTPConnection
from starlette.responses import JSONResponse

from fencelock.core.errors import EngineError, LeaseLost, LockTimeout, StaleFence
from fencelock.guards.http import PREFIX, PROBLEMS

log = logging.getLogger("fencelock.web")

_STALE = "stale-fence"
_KINDS: dict[type[Exception], tuple[str, int, str]] = {
    LockTimeout: ("locked", 423, "Somebody else holds the lock: try again later"),
    StaleFence: (_STALE, *PROBLEMS[_STALE]),
    LeaseLost: ("lease-lost", 500, "The lock was lost meanwhile: the work may be half done"),
    EngineError: ("engine-away", 503, "The locks can't be reached: try again later"),
}


def answer_errors(app: Starlette, *, retry_after: int = 1) -> None:
    """Answer an error of a lock with the status that fits, and a problem+json (RFC 9457).

    423 for `LockTimeout` and 503 for `EngineError`, both with `Retry-After: 1` or another number of seconds;
    409 for `StaleFence`; 500 for `LeaseLost`. The answer has the name of the lock. Who holds it, and on which
    host, is only logged, under `fencelock.web`.
    """
    for error, (kind, status, title) in _KINDS.items():
        problem = {"type": PREFIX + kind, "title": title, "status": status}
        again = {"Retry-After": str(retry_after)} if status in (423, 503) else None
        app.add_exception_handler(error, partial(_answer, problem, again))


# A coroutine function: Starlette runs any other handler in a thread.
async def _answer(
    problem: dict[str, Any],
    headers: dict[str, str] | None,
    _: HTTPConnection,
    error: Exception,
) -> JSONResponse:
    status = problem["status"]
    # Starlette logs an error only if nothing handles it.
    log.log(logging.ERROR if status >= 500 else logging.INFO, "%s", error, exc_info=status == 500)
    if name := getattr(error, "name", None):
        problem = {**problem, "name": name}
    return JSONResponse(problem, status, headers, media_type="application/problem+json")
