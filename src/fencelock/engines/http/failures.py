"""What a service's problems mean to a caller."""

from __future__ import annotations

import msgspec

from fencelock.core.errors import FencelockError, UnsafeEngine, Unsupported
from fencelock.engines.contract import UNSAFE
from fencelock.engines.failure import RequestFailed
from fencelock.engines.http.wire import Problem

PREFIX = "urn:fencelock:"

TIMED_OUT = "timed-out"

OTHER_ENGINE = "other-engine"

ELSEWHERE = ("", "closed", "draining", "limited", "not-ours", "proxy", OTHER_ENGINE, TIMED_OUT)
"""The codes of failures that another replica may not have. "": a connection failed."""

_ADVICE = {
    "unauthorized": (
        "the service does not accept this token, or wants one: write it into the URL "
        "(https://TOKEN@host), or set FENCELOCK_TOKEN"
    ),
    "forbidden": "the service does not allow that with this token",
    "malformed": "the service does not understand the request: is its version too old or too new?",
    "too-large": "the request is too large for the service",
    "limited": "the service has too much to do, or this token asks for too much",
    "draining": "the replica is about to end",
    "not-found": "there is no lock service at this path: check the URL",
}

_decode_problem = msgspec.json.Decoder(Problem).decode


def failure_of(problem: Problem, name: str | None) -> RequestFailed | FencelockError:
    """What to raise for a problem that a service has reported."""
    kind = problem.type.removeprefix(PREFIX)
    if kind == "unsupported":
        return Unsupported(problem.detail, name=name, longest_ttl=problem.longest_ttl)
    if kind == "unsafe-engine":
        return UnsafeEngine(UNSAFE)
    outcome = problem.outcome or "not applied"
    if kind in ("engine-away", "engine-unknown"):
        return RequestFailed(f"its engine: {problem.detail}", outcome, kind)
    said = _ADVICE.get(kind, problem.title)
    detail = f" ({problem.detail})" if problem.detail else ""
    return RequestFailed(said + detail, outcome, kind)


def refused(status: int, body: bytes) -> RequestFailed:
    """Why a handshake was refused: by a service, or by something else that speaks HTTP."""
    try:
        problem = _decode_problem(body)
    except msgspec.DecodeError:
        problem = None
    if problem is not None and problem.type.startswith(PREFIX):
        failure = failure_of(problem, None)
        if isinstance(failure, RequestFailed):
            return failure
    if status >= 500:
        why = f"a proxy answered with HTTP status {status}: it does not reach the service"
        return RequestFailed(why, "not applied", "proxy")
    if status in (401, 403):
        return RequestFailed(_ADVICE["unauthorized"], "not applied", "unauthorized")
    if 300 <= status < 400:
        why = f"the server sends us elsewhere (HTTP status {status}): use the other URL"
        return RequestFailed(why, "not applied", "not-ours")
    why = f"the server there is no lock service of ours (HTTP status {status}): check the URL"
    return RequestFailed(why, "not applied", "not-ours")
