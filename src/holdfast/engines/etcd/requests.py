"""The engine's transactions: each operation is one, and this is all that they do."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from holdfast.engines.etcd.keys import Keys
from holdfast.engines.etcd.leases import Lease
from holdfast.engines.etcd.messages_pb2 import KeyValue, RequestOp, ResponseOp, TxnRequest
from holdfast.engines.etcd.seat import Ahead, Seat
from holdfast.engines.etcd.traces import Trace, written
from holdfast.engines.etcd.wire import (
    changed_at,
    created_at,
    delete,
    first,
    get,
    is_there,
    nested,
    newest,
    none_after,
    none_before,
    oldest,
    put,
    touch,
    txn,
)


def enter(seat: Seat, ttl: float, lease: Lease, traces: Lease, *, if_free: bool) -> TxnRequest:
    """Join; if it is there already, renew and look again."""
    keys = seat.keys
    join = put(seat.key, seat.card._replace(ttl=ttl).pack(), lease.id)
    if_empty = [
        # A trace that is there is left as it is: then the one before did not release.
        nested(
            [created_at(keys.trace, 0)],
            [put(keys.trace, written("held"), traces.id)],
            [get(keys.trace)],
        ),
        join,
    ]
    behind = [newest(keys.queue, keys.end), *(() if if_free else (join,))]
    return txn(
        [created_at(seat.key, 0)],
        [nested([created_at(keys.queue, 0, keys.end)], if_empty, behind)],
        _renewed(seat, ttl, lease),
    )


def renew(seat: Seat, ttl: float, lease: Lease) -> RequestOp:
    """Extend a ticket if it is there, and look where it stands."""
    return nested([is_there(seat.key)], _renewed(seat, ttl, lease))


def look(seat: Seat) -> TxnRequest:
    """Where a ticket with a known fence stands.

    It only reads, and nothing is nested in it: such a transaction costs the servers no write.
    """
    return txn([is_there(seat.key)], [get(seat.key), *_search(seat)])


def _renewed(seat: Seat, ttl: float, lease: Lease) -> list[RequestOp]:
    same = seat.lease is lease and seat.card.ttl == ttl
    change = (
        touch(seat.key) if same else put(seat.key, seat.card._replace(ttl=ttl).pack(), lease.id)
    )
    return [change, get(seat.key), *_who_is_ahead(seat)]


def _who_is_ahead(seat: Seat) -> list[RequestOp]:
    """Who is, of those that were there before; and if nobody is, the trace."""
    if seat.admitted or not seat.fence:
        return []
    if seat.ahead is None:
        return [nested([], _search(seat))]
    # Most often it is the same as before: then nobody has to go through the whole queue.
    same = created_at(seat.ahead.key, seat.ahead.fence)
    return [nested([same], [get(seat.ahead.key)], _search(seat))]


def _search(seat: Seat) -> list[RequestOp]:
    keys = seat.keys
    return [newest(keys.queue, keys.end, before=seat.fence), get(keys.trace)]


class Seen(NamedTuple):
    """Where a ticket stands, as a transaction saw it."""

    fence: int
    ahead: Ahead | None
    trace: Trace | None
    known: bool
    """False: only its fence is known; look again with that."""


def seen(seat: Seat, answers: Sequence[ResponseOp]) -> Seen:
    """Read what `enter` or `renew` was told about a ticket that was there."""
    own = first(answers[1].response_range)
    assert own is not None
    if own.create_revision != seat.fence:
        return Seen(own.create_revision, None, None, False)
    if len(answers) == 2:
        return Seen(seat.fence, None, None, seat.admitted)
    return _found(seat, answers[2].response_txn.responses)


def looked(seat: Seat, answers: Sequence[ResponseOp]) -> Seen:
    """Read what `look` was told."""
    own = first(answers[0].response_range)
    assert own is not None
    if own.create_revision != seat.fence:
        return Seen(own.create_revision, None, None, False)
    return _found(seat, answers[1:])


def _found(seat: Seat, answers: Sequence[ResponseOp]) -> Seen:
    ahead = first(answers[0].response_range)
    trace = Trace.read(first(answers[1].response_range)) if len(answers) > 1 else None
    return Seen(seat.fence, None if ahead is None else Ahead.read(ahead), trace, True)


def take_out(keys: Keys, ahead: Ahead, traces: Lease) -> TxnRequest:
    """Take out a ticket that has expired, unless it was renewed; if it was the holder's, say so."""
    return txn(
        [changed_at(ahead.key, ahead.version)],
        [
            nested(
                [none_before(keys.queue, keys.end, ahead.fence)],
                [put(keys.trace, written("abandoned", ahead.fence), traces.id)],
            ),
            delete(ahead.key),
        ],
    )


def evict(keys: Keys, holder: KeyValue, traces: Lease) -> TxnRequest:
    """Take out the holder."""
    return txn(
        [created_at(holder.key, holder.create_revision)],
        [
            put(keys.trace, written("abandoned", holder.create_revision), traces.id),
            delete(holder.key),
        ],
    )


def release(seat: Seat, traces: Lease) -> TxnRequest:
    """Take out a ticket that is known to be the first: the last one to leave takes the trace along."""
    keys = seat.keys
    mine = created_at(seat.key, seat.fence)
    return txn(
        [mine, none_after(keys.queue, keys.end, seat.fence)],
        [delete(seat.key), delete(keys.trace)],
        [
            nested(
                [mine],
                [
                    delete(seat.key),
                    put(keys.trace, written("released", seat.fence), traces.id),
                ],
                [get(seat.key)],
            )
        ],
    )


def abandon(seat: Seat, traces: Lease) -> TxnRequest:
    """Take out a ticket; if it is the first, whoever is next will find the name abandoned."""
    keys = seat.keys
    return txn(
        [created_at(seat.key, seat.fence)],
        [
            nested(
                [none_before(keys.queue, keys.end, seat.fence)],
                [put(keys.trace, written("abandoned", seat.fence), traces.id)],
            ),
            delete(seat.key),
        ],
        [get(seat.key)],
    )


def withdraw(seat: Seat) -> TxnRequest:
    """Take out a ticket unless it is the first: then the trace has to be read before."""
    keys = seat.keys
    is_first = none_before(keys.queue, keys.end, seat.fence)
    return txn(
        [created_at(seat.key, seat.fence)],
        [nested([is_first], [get(keys.trace)], [delete(seat.key)])],
        [get(seat.key)],
    )


def inspect(keys: Keys, limit: int) -> TxnRequest:
    return txn(
        then=[
            oldest(keys.queue, keys.end, limit),
            newest(keys.queue, keys.end),
            get(keys.trace),
        ]
    )
