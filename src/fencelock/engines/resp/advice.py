"""The one place where Redis's failures become ours: what happened, and what to do about it."""

from __future__ import annotations

import hiredis

from fencelock.engines.failure import RequestFailed
from fencelock.engines.resp.wire import Rejected, said

_MAY = "let the ACL user run scripts, publish and subscribe on fencelock:* keys and channels"

_NO_TLS = "does it speak TLS at all? if not, use redis://"

# What Redis says when it did not carry out a command, and what to do about it.
_ADVICE = {
    "WRONGPASS": "check the user and the password in the URL",
    "NOAUTH": "the server wants a password: put it in the URL, redis://:password@host",
    "NOPERM": _MAY,
    "READONLY": "this is a replica: use the master's address, or a redis+sentinel:// URL",
    "LOADING": "the server is still loading its data: try again in a moment",
    "MASTERDOWN": "the server lost its master: wait for the failover",
    "CLUSTERDOWN": "the cluster is not complete: look at its nodes",
    "TRYAGAIN": "the slot is moving between nodes: try again in a moment",
    "MOVED": "this is a node of a cluster: use a redis+cluster:// URL",
    "ASK": "the slot is moving between nodes: try again in a moment",
    "OOM": "the server's memory is full: raise maxmemory, keep maxmemory-policy noeviction",
    "MISCONF": "the server can't write to its disk: look at its log",
    "BUSY": "a script blocks the server: look at it with SCRIPT KILL",
    "NOREPLICAS": "too few replicas are in reach",
    "DENIED": "the server only talks to its own machine: give it a password, or bind it elsewhere",
}
# What else can go wrong, by a part of its message.
_HINTS = {
    "DB index": "the server has fewer databases: use a lower number in the URL, or none",
    "max number of clients": "raise maxclients, or share one Client per process",
    "unknown command": "Fencelock needs HELLO, SUBSCRIBE, EVAL and SCRIPT, as Redis 7 has them",
    "The user executing the script": _MAY,
    "CERTIFICATE_VERIFY_FAILED": (
        "name the authority that signed its certificate with ?ca=FILE, "
        "and the host as it stands in the certificate"
    ),
    "WRONG_VERSION_NUMBER": _NO_TLS,
    "record layer failure": _NO_TLS,
    "no answer to TLS": _NO_TLS,
    "but Fencelock needs": "update the server",
    "WRONGTYPE": "another program uses a key that starts with fencelock: - give each its own database",
    "speak Redis's protocol": "is this the right address and port? for TLS use rediss://",
}
# After these the server is not what we took it for: whoever waits there waits in vain.
WRONG_SERVER = ("READONLY", "LOADING", "MASTERDOWN")
# After these someone else is responsible: look for them before the next request.
WRONG_NODE = ("CLUSTERDOWN", "MOVED", "ASK")


def first_word(error: RequestFailed) -> str:
    """The word by which Redis tells its errors apart."""
    return str(error).partition(" ")[0]


def rejection(reply: hiredis.ReplyError) -> Rejected:
    """What an error reply to one of our scripts means."""
    text = said(reply)
    # An error that a script ran into came perhaps after it had done something.
    refused = text.partition(" ")[0] in _ADVICE and " script: " not in text
    return Rejected(text, "not applied" if refused else "unknown")


def explained(error: RequestFailed) -> str:
    """What happened and what to do about it."""
    text = str(error)
    hints = [hint for part, hint in _HINTS.items() if part in text]
    advice = _ADVICE.get(first_word(error)) or (hints[0] if hints else None)
    if advice is None and error.outcome == "not applied":
        if "closed the connection" in text or "reset by peer" in text:
            return f"{text}: is this the right address and port? if it wants TLS, use rediss://"
        advice = "is the server running there, and is this its address?"
    elif advice is None:
        advice = "whether the request was carried out is not known"
    return f"{text}: {advice}"
