"""What a failed call means: whether etcd may have applied it, and what to do about it."""

from __future__ import annotations

import re
from typing import Any

import grpc

from fencelock.core.errors import Outcome
from fencelock.engines.failure import RequestFailed


class CallFailed(RequestFailed):
    """A call failed. `elsewhere`: another server of the cluster may answer it."""

    def __init__(self, text: str, outcome: Outcome, *, elsewhere: bool = False) -> None:
        super().__init__(text, outcome)
        self.elsewhere = elsewhere


class LoginNeeded(CallFailed):
    """The login token is not valid any more: it has expired, or the users were changed."""


class LeaseGone(CallFailed):
    """The request named a lease that does not exist (any more)."""


class Compacted(CallFailed):
    """The request asked for history that etcd has thrown away."""


_NOT_SENT = (
    "failed to connect to all addresses",
    "connections to all backends failing",
    "errors resolving",
    "resolution failed",
)
"""If gRPC says this, it had no connection on which it could have sent the request."""

_TLS_ADVICE = "for TLS use etcds://, with the option ca if its authority is not one of the system's"

_ADVICE = {
    "unwrap failed": "if the server asks for a certificate, give the options cert and key",
    "errors resolving": "is the name of the host right?",
    "resolution failed": "is the name of the host right?",
    "certificate": "is the option ca the authority that signed the server's certificate, and does "
    "the certificate name this host? if the server asks for a certificate, give the options cert "
    "and key",
    "handshake": "does the server speak TLS on this port? without TLS use etcd://",
    "wrong_version_number": "the server does not speak TLS on this port: use etcd://",
    "authentication failed": "check the user and the password in the URL",
    "authentication is not enabled": "leave the user and the password out of the URL",
    "user name is empty": "give a user and a password in the URL: etcd://user:password@host",
    "permission denied": "the user needs the right to read and write keys that begin with fencelock/",
    "database space exceeded": "compact and defragment the cluster, then disarm its alarm: "
    "etcdctl alarm disarm",
    "no leader": "a majority of the cluster's servers must be up and reach one another",
    "request timed out": "a majority of the cluster's servers must be up and reach one another",
    "too many requests": "the cluster is overloaded",
    "request is too large": "raise the server's --max-request-bytes",
    "too many operations": "raise the server's --max-txn-ops to its default of 128",
    "unimplemented": "etcd 3.4 or newer is needed",
    "unknown service": "etcd 3.4 or newer is needed",
}
"""Advice by a part of the message, in lower case. The first match counts."""

_REFUSED = {
    grpc.StatusCode.INVALID_ARGUMENT,
    grpc.StatusCode.NOT_FOUND,
    grpc.StatusCode.ALREADY_EXISTS,
    grpc.StatusCode.PERMISSION_DENIED,
    grpc.StatusCode.FAILED_PRECONDITION,
    grpc.StatusCode.RESOURCE_EXHAUSTED,
    grpc.StatusCode.UNIMPLEMENTED,
}
"""The server looked at the request and refused it."""


def call_failed(error: Any, where: str) -> CallFailed:
    """What gRPC's error means, by its status code and etcd's message."""
    code = error.code()
    text = str(error.details() or code.name.lower().replace("_", " "))
    lower = text.lower()
    if code is grpc.StatusCode.UNAUTHENTICATED or "revision of auth store is old" in lower:
        return LoginNeeded(text, "not applied")
    if code is grpc.StatusCode.NOT_FOUND and "lease" in lower:
        return LeaseGone(text, "not applied")
    if code is grpc.StatusCode.OUT_OF_RANGE and "compacted" in lower:
        return Compacted(text, "not applied")
    if code is grpc.StatusCode.DEADLINE_EXCEEDED:
        return CallFailed(f"no answer from {where}", "unknown", elsewhere=True)
    if code is grpc.StatusCode.UNAVAILABLE:
        not_sent = any(part in lower for part in _NOT_SENT)
        outcome: Outcome = "not applied" if not_sent else "unknown"
        if not text.startswith("etcdserver"):
            text = f"can't reach {where}: {_cause(text)}"
        return CallFailed(text, outcome, elsewhere=True)
    if code in _REFUSED:
        return CallFailed(text, "not applied", elsewhere=code is grpc.StatusCode.RESOURCE_EXHAUSTED)
    if code is grpc.StatusCode.CANCELLED:
        return CallFailed("the request was cancelled", "unknown")
    # Internal, unknown, data loss: the server at this address may not even be etcd.
    return CallFailed(f"{where}: {_cause(text)}", "unknown", elsewhere=True)


def client_closed(outcome: Outcome = "not applied") -> CallFailed:
    return CallFailed("the client was closed", outcome)


def _cause(text: str) -> str:
    """Only the cause. gRPC puts around it what it was doing and for which address."""
    text = text.rpartition("last error: ")[2]
    return re.sub(r"^[A-Z_]+: ipv[46]:\S+: ", "", text).removesuffix(": OK")


def with_advice(error: RequestFailed) -> str:
    """What happened, and what to do about it."""
    text = str(error)
    lower = text.lower()
    advice = next((advice for part, advice in _ADVICE.items() if part in lower), "")
    if not advice and text.startswith("can't reach"):
        if "refused" in lower:
            advice = "is etcd running there, and is this its client address?"
        else:
            advice = f"is this the client address of an etcd 3.4 or newer? {_TLS_ADVICE}"
    elif not advice and error.outcome == "unknown":
        advice = "whether the request was carried out is not known"
    return f"{text}: {advice}" if advice else text
