"""The engine's transactions: each operation is one, and this is all that they do."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from holdfast.engines.etcd.keys import Keys
from holdfast.engines.etcd.leases import Lease
from holdfast.engines.etcd.messages_pb2 import (
    KeyValue,
    RequestOp,
    ResponseOp,
    TxnRequest,
    TxnResponse,
)
from holdfast.engines.etcd.seat import Ahead, Seat, View
from holdfast.engines.etcd.traces import Trace, written
from holdfast.engines.etcd.wire import (
    changed_at,
    created_at,
    delete,
    first,
    get,
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
    """Join; if it is there already, renew and look again.

    The way of one who finds the lock free is the shortest, because it is what an acquire costs. A
    trace without a ticket means that the holder before did not release; it is left as it is.
    """
    keys, view = seat.keys, seat.view
    is_new = created_at(seat.key, 0)
    join = put(seat.key, seat.card._replace(ttl=ttl).pack(), lease.id)
    mark = put(keys.trace, written("held"), traces.id)
    there = [get(seat.key), *(_renewed(seat, view, ttl, lease) if view.fence else ())]
    if if_free:
        refused = nested([is_new], [newest(keys.queue, keys.end)], there)
        is_free = created_at(keys.queue, 0, keys.end)
        otherwise = nested([is_new, is_free], [join], [refused])
    else:
        # The two newest, because the newest is the one that joins.
        otherwise = nested([is_new], [join, newest(keys.queue, keys.end, limit=2)], there)
    nothing = created_at(keys.everything, 0, keys.everything_end)
    return txn([nothing], [join, mark], [otherwise])


class Joined(NamedTuple):
    """What was found by one who was not there yet."""

    there: bool
    """False: it did not join, because it was to do so only if nobody else was there."""
    ahead: KeyValue | None = None
    abandoned: bool = False


def joined(seat: Seat, answer: TxnResponse, *, if_free: bool) -> Joined | None:
    """Read what `enter` was told; None: it was there already."""
    if answer.succeeded:
        return Joined(True)
    otherwise = answer.responses[0].response_txn
    if if_free:
        if otherwise.succeeded:
            return Joined(True, abandoned=True)
        refused = otherwise.responses[0].response_txn
        if not refused.succeeded:
            return None
        return Joined(False, first(refused.responses[0].response_range))
    if not otherwise.succeeded:
        return None
    others = [kv for kv in otherwise.responses[1].response_range.kvs if kv.key != seat.key]
    return Joined(True, others[0] if others else None, abandoned=not others)


def there(answer: TxnResponse, *, if_free: bool) -> tuple[KeyValue, Sequence[ResponseOp]]:
    """What `enter` found there already, and what was told about it."""
    found = answer.responses[0].response_txn
    if if_free:
        found = found.responses[0].response_txn
    own = first(found.responses[0].response_range)
    assert own is not None
    return own, found.responses[1:]


def renew(seat: Seat, view: View, ttl: float, lease: Lease) -> RequestOp:
    """Extend a ticket if it is there, and look where it stands."""
    return nested([created_at(seat.key, view.fence)], _renewed(seat, view, ttl, lease))


def look(seat: Seat) -> TxnRequest:
    """Where a ticket with a known fence stands.

    It only reads, and nothing is nested in it: such a transaction costs the servers no write.
    """
    fence = seat.view.fence
    return txn([created_at(seat.key, fence)], _search(seat.keys, fence))


def _renewed(seat: Seat, view: View, ttl: float, lease: Lease) -> list[RequestOp]:
    same = seat.lease is lease and seat.card.ttl == ttl
    change = (
        touch(seat.key) if same else put(seat.key, seat.card._replace(ttl=ttl).pack(), lease.id)
    )
    return [change, *_who_is_ahead(seat.keys, view)]


def _who_is_ahead(keys: Keys, view: View) -> list[RequestOp]:
    """Who is, of those that were there before; and if nobody is, the trace."""
    if view.admitted:
        return []
    search = _search(keys, view.fence)
    if view.ahead is None:
        return [nested([], search)]
    # Most often it is the same as before: then nobody has to go through the whole queue.
    same = created_at(view.ahead.key, view.ahead.fence)
    return [nested([same], [get(view.ahead.key)], search)]


def _search(keys: Keys, fence: int) -> list[RequestOp]:
    return [newest(keys.queue, keys.end, before=fence), get(keys.trace)]


class Seen(NamedTuple):
    """Where a ticket stands, as a transaction saw it."""

    fence: int
    """Of the ticket that it was about."""
    ahead: Ahead | None = None
    """None: it is the first."""
    trace: Trace | None = None
    asked: bool = True
    """False: nobody asked, because it was known to be the first."""


def renewed(fence: int, answers: Sequence[ResponseOp]) -> Seen:
    """Read what the renewal of a ticket with this fence was told."""
    if len(answers) == 1:
        return Seen(fence, asked=False)
    return looked(fence, answers[1].response_txn.responses)


def looked(fence: int, answers: Sequence[ResponseOp]) -> Seen:
    """Read what `look` was told."""
    ahead = first(answers[0].response_range)
    trace = Trace.read(first(answers[1].response_range)) if len(answers) > 1 else None
    return Seen(fence, None if ahead is None else Ahead.read(ahead), trace)


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
    mine = created_at(seat.key, seat.view.fence)
    return txn(
        [mine, none_after(keys.queue, keys.end, seat.view.fence)],
        [delete(keys.everything, keys.everything_end)],
        [
            nested(
                [mine],
                [
                    delete(seat.key),
                    put(keys.trace, written("released", seat.view.fence), traces.id),
                ],
            )
        ],
    )


def abandon(seat: Seat, traces: Lease) -> TxnRequest:
    """Take out a ticket; if it is the first, whoever is next will find the name abandoned."""
    keys = seat.keys
    return txn(
        [created_at(seat.key, seat.view.fence)],
        [
            nested(
                [none_before(keys.queue, keys.end, seat.view.fence)],
                [put(keys.trace, written("abandoned", seat.view.fence), traces.id)],
            ),
            delete(seat.key),
        ],
    )


def withdraw(seat: Seat) -> TxnRequest:
    """Take out a ticket unless it is the first: then the trace has to be read before."""
    keys = seat.keys
    is_first = none_before(keys.queue, keys.end, seat.view.fence)
    return txn(
        [created_at(seat.key, seat.view.fence)],
        [nested([is_first], [get(keys.trace)], [delete(seat.key)])],
    )


def write_held(
    keys: Keys, ticket: bytes | None, fence: int, changes: Sequence[tuple[bytes, bytes | None]]
) -> TxnRequest:
    """Change somebody's own keys, provided that the ticket with its fence is still there."""
    who = oldest(keys.queue, keys.end, 1)
    if ticket is None:  # it has left, so nothing is to be changed
        return txn([created_at(keys.queue, fence)], [], [who])
    writes = [delete(key) if value is None else put(key, value, 0) for key, value in changes]
    return txn([created_at(ticket, fence)], writes, [who])


def inspect(keys: Keys, limit: int) -> TxnRequest:
    return txn(
        then=[
            oldest(keys.queue, keys.end, limit),
            newest(keys.queue, keys.end),
            get(keys.trace),
        ]
    )
