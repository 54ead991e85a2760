"""Answers over HTTP: JSON, and problem+json for everything that fails."""

from __future__ import annotations

import math
import zlib
from collections.abc import Mapping

import msgspec
from aiohttp import web
from aiohttp.http_exceptions import BadHttpMessage

from fencelock.engines.http.wire import Problem, encode
from fencelock.service.problems import problem, problem_of

_KINDS = {
    400: "malformed",
    404: "not-found",
    405: "method-not-allowed",
    413: "too-large",
    415: "not-json",
    417: "malformed",
}
"""The problems that stand for what aiohttp itself refuses."""

_BROKEN_BODY = (web.RequestPayloadError, BadHttpMessage, zlib.error, ConnectionError)
"""What reading a body may raise."""

_ALWAYS = {"Cache-Control": "no-store", "Server": "fencelock"}


def answer(
    body: msgspec.Struct, status: int = 200, headers: Mapping[str, str] | None = None
) -> web.Response:
    """An answer in JSON. No cache may keep it: a moment later it is wrong."""
    about = {**_ALWAYS, **(headers or {})}
    return web.Response(
        body=encode(body), status=status, content_type="application/json", headers=about
    )


def event_stream() -> web.StreamResponse:
    """The beginning of a stream of server-sent events."""
    about = {
        **_ALWAYS,
        "Content-Type": "text/event-stream; charset=utf-8",
        "X-Accel-Buffering": "no",  # nginx would keep events back
    }
    return web.StreamResponse(headers=about)


def failure(found: Problem, headers: Mapping[str, str] | None = None) -> web.Response:
    """The answer that tells of a problem."""
    about = {**_ALWAYS, **(headers or {})}
    if found.retry_after is not None:
        about["Retry-After"] = str(math.ceil(found.retry_after))
    if found.status == 401:
        about["WWW-Authenticate"] = "Bearer"
    return web.Response(
        body=encode(found),
        status=found.status,
        content_type="application/problem+json",
        headers=about,
    )


def failure_of(error: Exception) -> web.Response:
    """What to answer after an error in a handler."""
    if isinstance(error, _BROKEN_BODY):
        return failure(problem("malformed", "the body did not arrive as the headers promised"))
    if not isinstance(error, web.HTTPException):
        return failure(problem_of(error))
    kind = _KINDS.get(error.status)
    if kind is None:
        raise error
    allowed = {"Allow": error.headers["Allow"]} if "Allow" in error.headers else {}
    return failure(problem(kind), allowed)
