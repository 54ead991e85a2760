"""What an error of a Redis server means, and what to do about it."""

from __future__ import annotations

import hiredis

from fencelock.engines.failure import RequestFailed
from fencelock.engines.resp.wire import Rejected, error_text

_MAY = "let the ACL user run scripts, publish and subscribe on fencelock:* keys and channels"

_NO_TLS = "does it speak TLS at all? if not, use redis://"

# The first words of errors after which Redis has not carried out the command, and what to do about it.
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
# Other errors, by a part of their message.
_HINTS = {
    "the credentials ": "look at the provider, which the program gave to its client",
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
WRONG_SERVER = ("READONLY", "LOADING", "MASTERDOWN")
"""After these errors the server is no master. No wake-up will come from it."""
WRONG_NODE = ("CLUSTERDOWN", "MOVED", "ASK")
"""After these errors another node is responsible. Find out which, before the next request."""


def first_word(error: RequestFailed) -> str:
    """The word by which Redis tells its errors apart."""
    return str(error).partition(" ")[0]


def rejection(reply: hiredis.ReplyError) -> Rejected:
    """An error reply to one of our scripts, as an exception with its outcome."""
    text = error_text(reply)
    # An error inside of a script may come after the script has changed something.
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
        advice = "it is not known whether the request was carried out"
    return f"{text}: {advice}"
