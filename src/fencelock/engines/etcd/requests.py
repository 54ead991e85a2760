"""The engine's transactions: each operation is one. Those only for tickets that share are in `sharing.py`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from fencelock.engines.etcd.admission import Ahead, Crowd, Finding, find
from fencelock.engines.etcd.keys import Card, Keys
from fencelock.engines.etcd.leases import Lease
from fencelock.engines.etcd.messages_pb2 import (
    KeyValue,
    ResponseOp,
    TxnRequest,
    TxnResponse,
)
from fencelock.engines.etcd.seat import Seat, View
from fencelock.engines.etcd.traces import Trace, said, written
from fencelock.engines.etcd.wire import (
    Part,
    about,
    above,
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

ROW = 100
"""Tickets that are taken out in one transaction; etcd takes 128 steps by default."""

_MANY = 100
"""Peers that are looked at in a first attempt to see whether their permits suffice."""


def enter(seat: Seat, card: Card, lease: Lease, traces: Lease, *, if_free: bool) -> TxnRequest:
    """Join; if it is there already, renew and look again.

    The way of one who finds the lock free is the shortest, because it is what an acquire costs.
    """
    keys = seat.keys
    is_new = created_at(seat.key, 0)
    join = put(seat.key, card.pack(), lease.id)
    mark = put(keys.trace, written("held"), traces.id)
    # Where there is a trace, etcd need not go through the whole queue to see that there is something.
    nothing = [
        created_at(keys.trace, 0),
        created_at(keys.everything, 0, keys.everything_end),
    ]
    if not if_free:
        found = nested(nothing, [mark], search(seat))
        return txn([is_new], [found, join], there_already(seat, card, lease))
    refused = nested([is_new], [newest(keys.queue, keys.end)], there_already(seat, card, lease))
    is_free = created_at(keys.queue, 0, keys.end)
    otherwise = nested([is_new, is_free], [join, get(keys.trace)], [refused])
    return txn(nothing, [join, mark], [otherwise])


class Seen(NamedTuple):
    """Where a ticket stands, as a transaction saw it."""

    fence: int
    """Of the ticket that it was about."""
    finding: Finding | None = Finding()
    """None: one has to look again, and at more."""
    trace: Trace | None = None
    asked: bool = True
    """False: nobody asked, because it was known to be admitted."""


class Joined(NamedTuple):
    """What was found by one who was not there yet."""

    there: bool
    """False: it did not join, because it was to be admitted at once or not at all."""
    seen: Seen
    marked: bool = False
    """There was nothing at all, and the trace is its own."""


def joined(seat: Seat, answer: TxnResponse, *, if_free: bool) -> Joined | None:
    """Read what `enter` was told; None: it was there already."""
    fence = answer.header.revision
    if not if_free:
        if not answer.succeeded:
            return None
        found = answer.responses[0].response_txn
        if found.succeeded:
            return Joined(True, Seen(fence), marked=True)
        return Joined(True, searched(seat, fence, found.responses))
    if answer.succeeded:
        return Joined(True, Seen(fence), marked=True)
    otherwise = answer.responses[0].response_txn
    if otherwise.succeeded:
        return Joined(True, Seen(fence, trace=_trace(otherwise.responses[1])))
    refused = otherwise.responses[0].response_txn
    if not refused.succeeded:
        return None
    return Joined(False, Seen(0, Finding(_tickets(refused.responses[0]))))


def there(
    seat: Seat, answer: TxnResponse, *, if_free: bool
) -> tuple[KeyValue, Sequence[ResponseOp]]:
    """What a request to enter found there already, and what was told about it."""
    found = answer
    for _ in range(if_free * (1 if seat.shares else 2)):
        found = found.responses[0].response_txn
    own = first(found.responses[0].response_range)
    assert own is not None
    return own, found.responses[1:]


def renew(seat: Seat, view: View, card: Card, lease: Lease) -> Part:
    """Extend a ticket if it is there, and look where it stands."""
    return nested([created_at(seat.key, view.fence)], _renewed(seat, view, card, lease))


def look(seat: Seat, view: View, *, all_peers: bool = False, local: bool = False) -> TxnRequest:
    """Where a ticket with a known fence stands; `local`: as far as the server that is asked knows.

    It only reads, and nothing is nested in it: such a transaction costs the servers no write. If the trace
    says that the one right ahead released, that one was the first, and this one is now: then etcd need not
    go through the queue.
    """
    mine = created_at(seat.key, view.fence)
    everything = search(seat, view.fence, all_peers=all_peers)
    if _is_right_behind(seat, view):
        trace = seat.keys.trace
        request = txn(
            [mine, *said(trace, "released", view.ahead[0].fence)],
            [get(trace)],
            [about(seat.key), *everything],
        )
    else:
        request = txn([mine], everything)
    if local:
        for step in (*request.success, *request.failure):
            step.request_range.serializable = True
    return request


def unchanged(seat: Seat, view: View) -> TxnRequest:
    """Whether those ahead of a ticket with a known fence were not even renewed, and it is there itself."""
    same = [changed_at(one.key, one.version) for one in view.ahead]
    return txn([created_at(seat.key, view.fence), *same])


def looked(seat: Seat, view: View, answer: TxnResponse) -> Seen | None:
    """Read what `look` was told; None: it was not there."""
    if not _is_right_behind(seat, view):
        return searched(seat, view.fence, answer.responses) if answer.succeeded else None
    if answer.succeeded:
        return Seen(view.fence, trace=_trace(answer.responses[0]))
    own = first(answer.responses[0].response_range)
    if own is None or own.create_revision != view.fence:
        return None
    return searched(seat, view.fence, answer.responses[1:])


def _is_right_behind(seat: Seat, view: View) -> bool:
    """Whether the one of which it has to hear is the one right ahead of it in the queue."""
    return bool(view.ahead) and not seat.shares


def write(seat: Seat, card: Card, lease: Lease) -> Part:
    """Write what is on a ticket, unless something newer stands there: this may come late."""
    text = card.pack()
    return nested([above(seat.key, text)], [touch(seat.key)], [put(seat.key, text, lease.id)])


def there_already(seat: Seat, card: Card, lease: Lease) -> list[Part]:
    """What a request to enter does if the ticket is there: renew it, if its fence is known."""
    view = seat.view
    return [get(seat.key), *(_renewed(seat, view, card, lease) if view.fence else ())]


def _renewed(seat: Seat, view: View, card: Card, lease: Lease) -> list[Part]:
    same = seat.lease is lease and card is seat.card
    return [touch(seat.key) if same else write(seat, card, lease), *_who_is_ahead(seat, view)]


def _who_is_ahead(seat: Seat, view: View) -> list[Part]:
    """Who is, of those that were there before; and if nobody is, the trace."""
    if view.admitted:
        return []
    everything = search(seat, view.fence)
    if not view.decisive:
        return [nested([], everything)]
    # Most often they are the same as before: then nobody has to go through the whole queue.
    same = [created_at(one.key, one.fence) for one in view.ahead]
    return [nested(same, [get(one.key) for one in view.ahead], everything)]


def search(seat: Seat, fence: int = 0, *, all_peers: bool = False) -> list[Part]:
    """Who was there before the one with this fence, or before one that is about to join."""
    keys, share = seat.keys, seat.card.share
    trace = get(keys.trace)
    if not share.group:
        return [trace, newest(keys.queue, keys.end, before=fence)]
    steps = [trace, *(newest(*part, before=fence) for part in keys.strangers(share.group))]
    if share.weight:
        peers = keys.peers(share.group)
        limit = 0 if all_peers else min(share.permits, _MANY) + 1  # so many can't all have permits
        steps += [oldest(*peers, limit, before=fence), newest(*peers, before=fence)]
    return steps


def renewed(seat: Seat, view: View, answers: Sequence[ResponseOp]) -> Seen:
    """Read what a renewal was told that was based on this view."""
    if len(answers) == 1:
        return Seen(view.fence, asked=False)
    found = answers[1].response_txn
    if not view.decisive or not found.succeeded:
        return searched(seat, view.fence, found.responses)
    ahead = tuple(one for answer in found.responses for one in _tickets(answer))
    if not all(map(Ahead.only_renewed, ahead, view.ahead)):
        return Seen(view.fence, None)
    return Seen(view.fence, Finding(ahead, view.lacking, view.lacking > 0))


def searched(seat: Seat, fence: int, answers: Sequence[ResponseOp]) -> Seen:
    """Read what `search` found."""
    trace = _trace(answers[0])
    if not seat.shares:
        return Seen(fence, Finding(_tickets(answers[1])), trace)
    strangers = [*_tickets(answers[1]), *_tickets(answers[2])]
    if len(answers) == 3:
        return Seen(fence, find(seat.card.share, Crowd(strangers)), trace)
    complete = not answers[3].response_range.more
    crowd = Crowd(strangers, _tickets(answers[3]), complete, _tickets(answers[4]))
    return Seen(fence, find(seat.card.share, crowd), trace)


def _tickets(answer: ResponseOp) -> tuple[Ahead, ...]:
    return tuple(map(Ahead.read, answer.response_range.kvs))


def _trace(answer: ResponseOp) -> Trace | None:
    return Trace.read(first(answer.response_range))


def take_out(keys: Keys, expired: Sequence[Ahead], traces: Lease, *, before: int = 0) -> TxnRequest:
    """Take out tickets that have expired, unless one was renewed; if the first of them held alone, say so.

    Tells who is still there `before` a fence. Of a row that died together all but the last are seen so.
    """
    oldest_one = min(expired, key=lambda one: one.fence)
    steps = [delete(one.key) for one in expired]
    if not oldest_one.share.group:
        is_first = none_before(keys.queue, keys.end, oldest_one.fence)
        abandoned = put(keys.trace, written("abandoned", oldest_one.fence), traces.id)
        steps.append(nested([is_first], [abandoned]))
    same = [changed_at(one.key, one.version) for one in expired]
    return txn(same, [*steps, newest(keys.queue, keys.end, ROW, before=before)])


def taken_out(answer: TxnResponse) -> tuple[Ahead, ...]:
    """The newest of those who are still there."""
    return _tickets(answer.responses[-1])


def evict(keys: Keys, holder: KeyValue, traces: Lease) -> TxnRequest:
    """Take out one that holds alone."""
    return txn(
        [created_at(holder.key, holder.create_revision)],
        [
            put(keys.trace, written("abandoned", holder.create_revision), traces.id),
            delete(holder.key),
        ],
    )


def evict_all(holders: Sequence[KeyValue]) -> TxnRequest:
    """Take out those who share: the trace tells of others."""
    return txn(
        then=[
            nested([created_at(one.key, one.create_revision)], [delete(one.key)]) for one in holders
        ]
    )


def release(seat: Seat, traces: Lease) -> TxnRequest:
    """Take out one that is known to hold alone: the last one to leave takes the trace along."""
    keys, view = seat.keys, seat.view
    is_last = [none_after(keys.queue, keys.end, view.fence)]
    if view.revision > view.fence:
        # It has waited, so others may, too: of many some are near, and etcd need not go through them all.
        is_last.insert(0, none_after(*keys.near(seat.key), view.fence))
    return txn(
        [created_at(seat.key, view.fence)],
        [
            nested(
                is_last,
                [delete(keys.everything, keys.everything_end)],
                [
                    delete(seat.key),
                    put(keys.trace, written("released", view.fence), traces.id),
                ],
            )
        ],
    )


def mark(seat: Seat, fence: int, trace: Trace | None, traces: Lease) -> TxnRequest:
    """Write down that this one holds alone: the trace, as it is, would not tell if it vanished."""
    return txn(
        [
            created_at(seat.key, fence),
            changed_at(seat.keys.trace, 0 if trace is None else trace.revision),
        ],
        [put(seat.keys.trace, written("held", fence), traces.id)],
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


def note(ticket: bytes, fence: int, key: bytes, value: bytes, lease: Lease) -> TxnRequest:
    """Note something down, provided that the ticket with its fence is still there.

    Tells on which lease the note lives that was there before.
    """
    return txn([created_at(ticket, fence)], [about(key), put(key, value, lease.id)])


def inspect(keys: Keys, limit: int) -> TxnRequest:
    return txn(
        then=[
            oldest(keys.queue, keys.end, limit),
            newest(keys.queue, keys.end),
            get(keys.trace),
        ]
    )
