"""The transactions of those who share a name, as `requests.py` has those of everybody."""

from __future__ import annotations

from fencelock.engines.etcd.keys import Card, Keys
from fencelock.engines.etcd.leases import Lease
from fencelock.engines.etcd.messages_pb2 import TxnRequest, TxnResponse
from fencelock.engines.etcd.requests import Joined, Seen, search, searched, there_already, write
from fencelock.engines.etcd.seat import Seat
from fencelock.engines.etcd.traces import Trace, written
from fencelock.engines.etcd.wire import (
    Part,
    changed_at,
    created_at,
    delete,
    first,
    get,
    nested,
    none_after,
    none_before,
    put,
    txn,
)


def enter(seat: Seat, card: Card, lease: Lease) -> TxnRequest:
    """Join, and look who is ahead; if it is there already, renew and look again."""
    return txn(
        [created_at(seat.key, 0)],
        [*search(seat), _join(seat, card, lease)],
        there_already(seat, card, lease),
    )


def joined(seat: Seat, answer: TxnResponse) -> Joined | None:
    """Read what `enter` was told; None: it was there already."""
    if not answer.succeeded:
        return None
    return Joined(True, searched(seat, answer.header.revision, answer.responses[:-1]))


def enter_if_free(
    seat: Seat, card: Card, lease: Lease, free_at: int, *, all_peers: bool
) -> TxnRequest:
    """Join if that means to be admitted: nobody is in the way, or nobody has come since it was so."""
    keys, share = seat.keys, seat.card.share
    is_new = created_at(seat.key, 0)
    if free_at:
        is_free = [none_after(keys.queue, keys.end, free_at)]
    elif share.weight:
        is_free = [created_at(keys.queue, 0, keys.end)]
    else:
        is_free = [created_at(part.key, 0, part.end) for part in keys.strangers(share.group)]
    return txn(
        [is_new, *is_free],
        [_join(seat, card, lease), get(keys.trace)],
        [nested([is_new], search(seat, all_peers=all_peers), there_already(seat, card, lease))],
    )


def joined_if_free(seat: Seat, answer: TxnResponse) -> Joined | None:
    """Read what `enter_if_free` was told; None: it was there already."""
    if answer.succeeded:
        trace = Trace.read(first(answer.responses[1].response_range))
        return Joined(True, Seen(answer.header.revision, trace=trace))
    refused = answer.responses[0].response_txn
    return Joined(False, searched(seat, 0, refused.responses)) if refused.succeeded else None


def turn(seat: Seat, card: Card, lease: Lease, traces: Lease) -> TxnRequest:
    """Let one that holds alone share from now on. What it found is what it leaves behind."""
    return txn(
        [created_at(seat.key, seat.view.fence)],
        [write(seat, card, lease), _left(seat.keys, bool(seat.view.abandoned), traces)],
    )


def call(seat: Seat, card: Card, lease: Lease) -> TxnRequest:
    """Tell the next of the group that this one is not short of permits any more."""
    return txn([created_at(seat.key, seat.view.fence)], [write(seat, card, lease)])


def depart(seat: Seat, traces: Lease) -> TxnRequest:
    """Take out one that is known to be admitted; the last one to leave takes the trace along.

    If one that waits to hold alone may be the first now, it need not write down that it is.
    """
    keys, fence = seat.keys, seat.view.fence
    mine = created_at(seat.key, fence)
    if seat.view.abandoned:
        return txn([mine], [_left(keys, True, traces), delete(seat.key)])
    is_first = none_before(keys.queue, keys.end, fence)
    only_peers = [
        none_after(part.key, part.end, fence) for part in keys.strangers(seat.card.share.group)
    ]
    released = put(keys.trace, written("released", fence), traces.id)
    return txn(
        [mine, is_first, none_after(keys.queue, keys.end, fence)],
        [delete(keys.everything, keys.everything_end)],
        [
            nested(
                [mine],
                [
                    nested([is_first], [nested(only_peers, [], [released])]),
                    delete(seat.key),
                ],
            )
        ],
    )


def withdraw(seat: Seat) -> TxnRequest:
    """Take out one that may be waiting."""
    return txn([created_at(seat.key, seat.view.fence)], [delete(seat.key)])


def settle(seat: Seat, fence: int, trace: Trace, abandoned: bool, traces: Lease) -> TxnRequest:
    """Write down what was found out about a trace, for those who come to share as well."""
    return txn(
        [created_at(seat.key, fence), changed_at(seat.keys.trace, trace.revision)],
        [_left(seat.keys, abandoned, traces)],
    )


def _join(seat: Seat, card: Card, lease: Lease) -> Part:
    """A newcomer has called nobody yet."""
    return put(seat.key, card.uncalled().pack(), lease.id)


def _left(keys: Keys, abandoned: bool, traces: Lease) -> Part:
    """What those who share leave behind: the word that somebody else was lost, or nothing."""
    if abandoned:
        return put(keys.trace, written("abandoned"), traces.id)
    return delete(keys.trace)
