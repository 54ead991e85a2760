"""Fences over HTTP: a header for requests, and middleware that answers 409 to a holder that was overtaken.

    Fencelock-Fence: order%3A42; fence=1794776823290055; holder=5d41402abc4b2a76b9719d911017c592

The name is percent-encoded. The holder is a digest of the lease's id, so the header gives no secret away.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from typing import Any
from urllib.parse import quote, unquote

from fencelock.core.errors import StaleFence
from fencelock.core.names import check_name
from fencelock.guards.stamp import Claim, Stamp, holder_of

HEADER = "Fencelock-Fence"
KEY = "fencelock.claim"
"""Where an application finds the `Claim`: in WSGI's `environ`, in ASGI's `scope`."""

TYPE = "urn:fencelock:stale-fence"

_is_claim = re.compile(r"([^;\s]+); *fence=([0-9]{1,19}); *holder=([0-9a-f]{32})").fullmatch
_PROBLEM = "application/problem+json"

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Any]]
Send = Callable[[Any], Awaitable[None]]


def headers(lease: Stamp) -> dict[str, str]:
    """What to add to each request that is made under a lease."""
    name = quote(lease.name, safe="")
    return {HEADER: f"{name}; fence={lease.fence}; holder={holder_of(lease)}"}


def claim_of(value: str) -> Claim:
    """Read the header; `ValueError` if it is not one."""
    found = _is_claim(value.strip())
    if found is None or int(found[2]) >= 2**63:
        raise ValueError(f"a {HEADER} header must look like NAME; fence=NUMBER; holder=DIGEST")
    return Claim(check_name(unquote(found[1], errors="strict")), int(found[2]), found[3])


def refusal(body: bytes) -> StaleFence | None:
    """The error that the other side answered with 409; None if it is about something else."""
    try:
        told = json.loads(body)
        if told["type"] != TYPE:
            return None
        return StaleFence(told["name"], given=int(told["given"]), newest=int(told["newest"]))
    except (ValueError, TypeError, KeyError):
        return None


class WsgiFence:
    """WSGI middleware: `app = WsgiFence(app, check=guard.raise_fence)`.

    `check` is called with the `Claim` of each request that has the header, before the application is. A
    `StaleFence`, from it or from the application, becomes 409. With `required`, requests that may change
    something and have no header get 428.
    """

    def __init__(
        self, app: Any, check: Callable[[Claim], Any] | None = None, *, required: bool = False
    ) -> None:
        self._app = app
        self._check = check
        self._required = required

    def __call__(self, environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        """Answer a request."""
        value = environ.get("HTTP_" + HEADER.upper().replace("-", "_"))
        try:
            claim = _claim(value, environ["REQUEST_METHOD"], self._required)
            if claim is not None:
                environ[KEY] = claim
                if self._check is not None:
                    self._check(claim)
            answer: Iterable[bytes] = self._app(environ, start_response)
            return answer
        except (_Refused, StaleFence) as error:
            status, body = _problem(error)
            about = [("Content-Type", _PROBLEM), ("Content-Length", str(len(body)))]
            start_response(status, about, sys.exc_info())
            return [body]


class AsgiFence:
    """ASGI middleware: `app = AsgiFence(app, check=guard.raise_fence)`, with an Async… guard.

    The arguments are those of `WsgiFence`.
    """

    def __init__(
        self,
        app: Any,
        check: Callable[[Claim], Awaitable[Any]] | None = None,
        *,
        required: bool = False,
    ) -> None:
        self._app = app
        self._check = check
        self._required = required

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        started = False

        async def sending(message: Any) -> None:
            nonlocal started
            started = True
            await send(message)

        wanted = HEADER.lower().encode()
        values = [value for name, value in scope["headers"] if name.lower() == wanted]
        try:
            value = b", ".join(values).decode("latin-1") if values else None
            claim = _claim(value, scope["method"], self._required)
            if claim is not None:
                scope = {**scope, KEY: claim}
                if self._check is not None:
                    await self._check(claim)
            await self._app(scope, receive, sending)
        except (_Refused, StaleFence) as error:
            if started:
                raise
            status, body = _problem(error)
            about = [
                (b"content-type", _PROBLEM.encode()),
                (b"content-length", str(len(body)).encode()),
            ]
            code = int(status[:3])
            await send({"type": "http.response.start", "status": code, "headers": about})
            await send({"type": "http.response.body", "body": body})


class _Refused(Exception):
    """A request that has no claim, or no good one."""

    def __init__(self, status: str, detail: str) -> None:
        super().__init__(detail)
        self.status = status


def _claim(value: str | None, method: str, required: bool) -> Claim | None:
    if value is None:
        if required and method not in ("GET", "HEAD", "OPTIONS"):
            raise _Refused("428 Precondition Required", f"a {HEADER} header is needed here")
        return None
    try:
        return claim_of(value)
    except ValueError as error:
        raise _Refused("400 Bad Request", str(error)) from error


def _problem(error: _Refused | StaleFence) -> tuple[str, bytes]:
    """A status line and a body as RFC 9457 has it."""
    told: dict[str, Any]
    if isinstance(error, StaleFence):
        status = "409 Conflict"
        told = {"type": TYPE, "title": "Another holder of the lock has taken over", "status": 409}
        told |= {"name": error.name, "given": error.given, "newest": error.newest}
    else:
        status = error.status
        told = {"title": str(error), "status": int(status[:3])}
    return status, json.dumps(told).encode()
