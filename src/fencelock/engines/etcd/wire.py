"""etcd's methods, and short words for the parts of its transactions."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from fencelock.engines.etcd.messages_pb2 import (
    AuthenticateRequest,
    AuthenticateResponse,
    Compare,
    KeyValue,
    LeaseGrantRequest,
    LeaseGrantResponse,
    LeaseKeepAliveRequest,
    LeaseKeepAliveResponse,
    LeaseRevokeRequest,
    LeaseRevokeResponse,
    LeaseTimeToLiveRequest,
    LeaseTimeToLiveResponse,
    RangeRequest,
    RangeResponse,
    TxnRequest,
    TxnResponse,
    WatchRequest,
    WatchResponse,
)


class Method(NamedTuple):
    """A procedure of the server: its address, and how what it takes and gives is written."""

    path: str
    pack: Callable[[Any], bytes]
    unpack: Callable[[bytes], Any]


def _method(path: str, request: Any, response: Any) -> Method:
    return Method(f"/etcdserverpb.{path}", request.SerializeToString, response.FromString)


RANGE = _method("KV/Range", RangeRequest, RangeResponse)
TXN = _method("KV/Txn", TxnRequest, TxnResponse)
WATCH = _method("Watch/Watch", WatchRequest, WatchResponse)
GRANT = _method("Lease/LeaseGrant", LeaseGrantRequest, LeaseGrantResponse)
REVOKE = _method("Lease/LeaseRevoke", LeaseRevokeRequest, LeaseRevokeResponse)
# A stream by its definition, but of one request and one answer it is a call like the others.
KEEP_ALIVE = _method("Lease/LeaseKeepAlive", LeaseKeepAliveRequest, LeaseKeepAliveResponse)
TIME_TO_LIVE = _method("Lease/LeaseTimeToLive", LeaseTimeToLiveRequest, LeaseTimeToLiveResponse)
AUTHENTICATE = _method("Auth/Authenticate", AuthenticateRequest, AuthenticateResponse)


# --- the parts of a transaction. They are dicts: of messages protobuf would make a copy at each level.

Part = dict[str, Any]

# --- conditions. Those about a range hold if they hold for each of its keys, a missing key has
# revision 0, and so has an empty range.


def created_at(key: bytes, revision: int, end: bytes = b"") -> Part:
    return {
        "result": Compare.EQUAL,
        "target": Compare.CREATE,
        "key": key,
        "range_end": end,
        "create_revision": revision,
    }


def changed_at(key: bytes, revision: int) -> Part:
    return {"result": Compare.EQUAL, "target": Compare.MOD, "key": key, "mod_revision": revision}


def none_before(key: bytes, end: bytes, revision: int) -> Part:
    return {
        "result": Compare.GREATER,
        "target": Compare.CREATE,
        "key": key,
        "range_end": end,
        "create_revision": revision - 1,
    }


def none_after(key: bytes, end: bytes, revision: int) -> Part:
    return {
        "result": Compare.LESS,
        "target": Compare.CREATE,
        "key": key,
        "range_end": end,
        "create_revision": revision + 1,
    }


def above(key: bytes, value: bytes) -> Part:
    """Whether a key's value is greater than another, byte by byte."""
    return {"result": Compare.GREATER, "target": Compare.VALUE, "key": key, "value": value}


def below(key: bytes, value: bytes) -> Part:
    return {"result": Compare.LESS, "target": Compare.VALUE, "key": key, "value": value}


# --- steps


def get(key: bytes) -> Part:
    return {"request_range": {"key": key}}


def about(key: bytes) -> Part:
    """All but the value."""
    return {"request_range": {"key": key, "keys_only": True}}


def oldest(key: bytes, end: bytes, limit: int, *, before: int = 0) -> Part:
    """The oldest keys of a range, of those that were created before a revision."""
    return {
        "request_range": {
            "key": key,
            "range_end": end,
            "limit": limit,
            "sort_order": RangeRequest.ASCEND,
            "sort_target": RangeRequest.CREATE,
            "max_create_revision": before - 1 if before else 0,
        }
    }


def newest(key: bytes, end: bytes, limit: int = 1, *, before: int = 0) -> Part:
    """The newest keys of a range, of those that were created before a revision."""
    return {
        "request_range": {
            "key": key,
            "range_end": end,
            "limit": limit,
            "sort_order": RangeRequest.DESCEND,
            "sort_target": RangeRequest.CREATE,
            "max_create_revision": before - 1 if before else 0,
        }
    }


def put(key: bytes, value: bytes, lease: int) -> Part:
    return {"request_put": {"key": key, "value": value, "lease": lease}}


def touch(key: bytes) -> Part:
    """Move a key's revision on, and leave all else as it is."""
    return {"request_put": {"key": key, "ignore_value": True, "ignore_lease": True}}


def delete(key: bytes, end: bytes = b"") -> Part:
    return {"request_delete_range": {"key": key, "range_end": end}}


def txn(
    compare: Iterable[Part] = (),
    then: Iterable[Part] = (),
    otherwise: Iterable[Part] = (),
) -> TxnRequest:
    return TxnRequest(compare=compare, success=then, failure=otherwise)


def nested(
    compare: Iterable[Part],
    then: Iterable[Part] = (),
    otherwise: Iterable[Part] = (),
) -> Part:
    """Conditions inside of a transaction look at what was before all of its steps."""
    return {"request_txn": {"compare": compare, "success": then, "failure": otherwise}}


# --- answers


def first(answer: RangeResponse) -> KeyValue | None:
    return answer.kvs[0] if answer.kvs else None
