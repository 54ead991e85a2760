"""etcd's methods, and functions that make the parts of its transactions."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from fencelock.engines.etcd import messages_pb2 as messages
from fencelock.engines.etcd.messages_pb2 import (
    Compare,
    KeyValue,
    RangeRequest,
    RangeResponse,
    TxnRequest,
)


class Method(NamedTuple):
    """A remote procedure: its path, how to pack the request, and how to unpack the answer."""

    path: str
    pack: Callable[[Any], bytes]
    unpack: Callable[[bytes], Any]


def _method(path: str, request: Any, response: Any) -> Method:
    return Method(f"/etcdserverpb.{path}", request.SerializeToString, response.FromString)


RANGE = _method("KV/Range", messages.RangeRequest, messages.RangeResponse)
TXN = _method("KV/Txn", messages.TxnRequest, messages.TxnResponse)
WATCH = _method("Watch/Watch", messages.WatchRequest, messages.WatchResponse)
GRANT = _method("Lease/LeaseGrant", messages.LeaseGrantRequest, messages.LeaseGrantResponse)
REVOKE = _method("Lease/LeaseRevoke", messages.LeaseRevokeRequest, messages.LeaseRevokeResponse)
# etcd defines it as a stream. With one request and one answer it works as a plain call.
KEEP_ALIVE = _method(
    "Lease/LeaseKeepAlive", messages.LeaseKeepAliveRequest, messages.LeaseKeepAliveResponse
)
TIME_TO_LIVE = _method(
    "Lease/LeaseTimeToLive", messages.LeaseTimeToLiveRequest, messages.LeaseTimeToLiveResponse
)
AUTHENTICATE = _method(
    "Auth/Authenticate", messages.AuthenticateRequest, messages.AuthenticateResponse
)
STATUS = _method("Maintenance/Status", messages.StatusRequest, messages.StatusResponse)
MEMBERS = _method("Cluster/MemberList", messages.MemberListRequest, messages.MemberListResponse)


# The parts of a transaction are dicts: protobuf would copy messages at each level.

Part = dict[str, Any]

BATCH = 100
"""Tickets that one transaction is about, at most. etcd allows 128 steps by default."""


# --- conditions. A condition about a range must hold for each of its keys. A missing key has revision 0,
# and so has an empty range.


def created_at(key: bytes, revision: int, end: bytes = b"") -> Part:
    return _created(Compare.EQUAL, key, end, revision)


def none_before(key: bytes, end: bytes, revision: int) -> Part:
    return _created(Compare.GREATER, key, end, revision - 1)


def none_after(key: bytes, end: bytes, revision: int) -> Part:
    return _created(Compare.LESS, key, end, revision + 1)


def _created(result: int, key: bytes, end: bytes, revision: int) -> Part:
    return {
        "result": result,
        "target": Compare.CREATE,
        "key": key,
        "range_end": end,
        "create_revision": revision,
    }


def changed_at(key: bytes, revision: int) -> Part:
    return {"result": Compare.EQUAL, "target": Compare.MOD, "key": key, "mod_revision": revision}


def value_is(key: bytes, value: bytes) -> Part:
    return {"result": Compare.EQUAL, "target": Compare.VALUE, "key": key, "value": value}


def value_above(key: bytes, value: bytes) -> Part:
    """Whether a key's value is greater than another, byte by byte."""
    return {"result": Compare.GREATER, "target": Compare.VALUE, "key": key, "value": value}


def value_below(key: bytes, value: bytes) -> Part:
    return {"result": Compare.LESS, "target": Compare.VALUE, "key": key, "value": value}


# --- steps


def get(key: bytes) -> Part:
    return {"request_range": {"key": key}}


def get_without_value(key: bytes) -> Part:
    return {"request_range": {"key": key, "keys_only": True}}


def oldest(key: bytes, end: bytes, limit: int, *, before: int = 0) -> Part:
    """The oldest keys of a range. With `before`: of those that were created before this revision."""
    return _sorted(RangeRequest.ASCEND, key, end, limit, before)


def newest(key: bytes, end: bytes, limit: int = 1, *, before: int = 0) -> Part:
    """The newest keys of a range. With `before`: of those that were created before this revision."""
    return _sorted(RangeRequest.DESCEND, key, end, limit, before)


def _sorted(order: int, key: bytes, end: bytes, limit: int, before: int) -> Part:
    return {
        "request_range": {
            "key": key,
            "range_end": end,
            "limit": limit,
            "sort_order": order,
            "sort_target": RangeRequest.CREATE,
            "max_create_revision": before - 1 if before else 0,
        }
    }


def put(key: bytes, value: bytes, lease: int) -> Part:
    return {"request_put": {"key": key, "value": value, "lease": lease}}


def touch(key: bytes) -> Part:
    """Give a key a new revision, and leave all else as it is."""
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
    """A transaction in a transaction. Its conditions see how things were before all steps."""
    return {"request_txn": {"compare": compare, "success": then, "failure": otherwise}}


# --- answers


def first(answer: RangeResponse) -> KeyValue | None:
    return answer.kvs[0] if answer.kvs else None
