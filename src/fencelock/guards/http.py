"""Fences over HTTP: a header for requests, and middleware that answers 409 to a stale holder.

    Fencelock-Fence: order%3A42; fence=1794776823290055; holder=5d41402abc4b2a76b9719d911017c592

The name is percent-encoded. The holder is a digest of the lease's id, so the header contains no secret.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from http import HTTPStatus
from typing import Any
from urllib.parse import quote, unquote

from fencelock.core.errors import StaleFence
from fencelock.core.names import check_name
from fencelock.guards.lease_like import LeaseLike, RemoteLease, holder_of

HEADER = "Fencelock-Fence"
KEY = "fencelock.claim"
"""The key of the `RemoteLease` in WSGI's `environ` and in ASGI's `scope`."""

PREFIX = "urn:fencelock:"

PROBLEMS = {
    "malformed": (400, "The request is malformed"),
    "stale-fence": (409, "Another holder of the lock has taken over"),
    "fence-needed": (428, "The request needs a Fencelock-Fence header"),
    "storage-away": (502, "The storage did not answer, and may have acted"),
}
"""The problems that the middleware answers with. They are part of the table of the lock service."""

_is_claim = re.compile(r"([^;\s]+); *fence=([0-9]{1,19}); *holder=([0-9a-f]{32})").fullmatch
_PROBLEM = "application/problem+json"

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Any]]
Send = Callable[[Any], Awaitable[None]]


def headers(lease: LeaseLike) -> dict[str, str]:
    """The header to add to each request that is made under a lease."""
    name = quote(lease.name, safe="")
    return {HEADER: f"{name}; fence={lease.fence}; holder={holder_of(lease)}"}


def remote_lease(value: str) -> RemoteLease:
    """Parse the header's value; `ValueError` if it is malformed."""
    found = _is_claim(value.strip())
    if found is None or int(found[2]) >= 2**63:
        raise ValueError(f"a {HEADER} header must look like NAME; fence=NUMBER; holder=DIGEST")
    return RemoteLease(check_name(unquote(found[1], errors="strict")), int(found[2]), found[3])


def refusal(body: bytes) -> StaleFence | None:
    """The `StaleFence` in the body of a 409 response; None if the response is about something else."""
    try:
        sent = json.loads(body)
        if sent["type"] != PREFIX + "stale-fence":
            return None
        return StaleFence(sent["name"], given=int(sent["given"]), newest=int(sent["newest"]))
    except (ValueError, TypeError, KeyError):
        return None


class WsgiFence:
    """WSGI middleware: `app = WsgiFence(app, check=guard.raise_fence)`.

    It calls `check` with the `RemoteLease` of each request that has the header, and then the application. A
    `StaleFence` from either becomes a 409 response. With `required`, a request without the header gets 428,
    unless its method is GET, HEAD or OPTIONS.
    """

    def __init__(
        self, app: Any, check: Callable[[RemoteLease], Any] | None = None, *, required: bool = False
    ) -> None:
        self._app = app
        self._check = check
        self._required = required

    def __call__(self, environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        """Answer a request."""
        value = environ.get("HTTP_" + HEADER.upper().replace("-", "_"))
        try:
            claim = _lease(value, environ["REQUEST_METHOD"], self._required)
            if claim is not None:
                environ[KEY] = claim
                if self._check is not None:
                    self._check(claim)
            answer: Iterable[bytes] = self._app(environ, start_response)
            return answer
        except (Refusal, StaleFence) as error:
            status, body = _problem(error)
            about = [("Content-Type", _PROBLEM), ("Content-Length", str(len(body)))]
            start_response(f"{status} {HTTPStatus(status).phrase}", about, sys.exc_info())
            return [body]


class AsgiFence:
    """ASGI middleware: `app = AsgiFence(app, check=guard.raise_fence)`, with an async guard.

    The other arguments are those of `WsgiFence`.
    """

    def __init__(
        self,
        app: Any,
        check: Callable[[RemoteLease], Awaitable[Any]] | None = None,
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

        async def start_and_send(message: Any) -> None:
            nonlocal started
            started = True
            await send(message)

        wanted = HEADER.lower().encode()
        values = [value for name, value in scope["headers"] if name.lower() == wanted]
        try:
            value = b", ".join(values).decode("latin-1") if values else None
            claim = _lease(value, scope["method"], self._required)
            if claim is not None:
                scope = {**scope, KEY: claim}
                if self._check is not None:
                    await self._check(claim)
            await self._app(scope, receive, start_and_send)
        except (Refusal, StaleFence) as error:
            if started:
                raise
            status, body = _problem(error)
            about = [
                (b"content-type", _PROBLEM.encode()),
                (b"content-length", str(len(body)).encode()),
            ]
            await send({"type": "http.response.start", "status": status, "headers": about})
            await send({"type": "http.response.body", "body": body})


class Refusal(Exception):
    """A request that gets one of the `PROBLEMS`."""

    def __init__(self, kind: str, detail: str) -> None:
        super().__init__(detail)
        self.kind = kind


def _lease(value: str | None, method: str, required: bool) -> RemoteLease | None:
    if value is None:
        if required and method not in ("GET", "HEAD", "OPTIONS"):
            raise Refusal("fence-needed", f"add the {HEADER} header of a lease")
        return None
    try:
        return remote_lease(value)
    except ValueError as error:
        raise Refusal("malformed", str(error)) from error


def _problem(error: Refusal | StaleFence) -> tuple[int, bytes]:
    """The status, and a body in the format of RFC 9457. Fences are strings, as JavaScript rounds numbers."""
    kind = "stale-fence" if isinstance(error, StaleFence) else error.kind
    status, title = PROBLEMS[kind]
    problem = {"type": PREFIX + kind, "title": title, "status": status, "detail": str(error)}
    if isinstance(error, StaleFence):
        problem |= {"name": error.name, "given": str(error.given), "newest": str(error.newest)}
    return status, json.dumps(problem).encode()
