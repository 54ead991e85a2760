"""Transactions that say where a ticket stands: searching the queue, looking again, and renewing.

A function builds a transaction, or steps of one. The function `read_…` beside it reads the answer.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from fencelock.engines.etcd.admission import Ahead, Blockers, QueueAhead, blockers
from fencelock.engines.etcd.entry import Change, Entry, Stored, View
from fencelock.engines.etcd.messages_pb2 import KeyValue, ResponseOp, TxnRequest, TxnResponse
from fencelock.engines.etcd.values import Marker
from fencelock.engines.etcd.wire import (
    Part,
    created_at,
    delete,
    first,
    get,
    get_without_value,
    nested,
    newest,
    oldest,
    put,
    touch,
    txn,
    value_above,
    value_below,
    value_is,
)

_FIRST_PEERS = 100
"""How many peers a first search reads at most, to see whether their permits suffice."""

_MAX_COMPARED = 16
"""How many tickets ahead a renewal compares. It may be one of a hundred in its transaction, and what is
nested in a transaction counts towards etcd's limit for all of it."""


class Seen(NamedTuple):
    """Where a ticket stands, as a transaction saw it."""

    fence: int
    """The fence of the ticket that the question was about. 0: it is not in the queue."""
    blockers: Blockers | None = Blockers()
    """None: look again, at all peers."""
    marker: Marker | None = None
    asked: bool = True
    """False: the transaction did not ask, because the ticket was known to be admitted."""


# --- searching


def search(entry: Entry, fence: int = 0, *, all_peers: bool = False) -> list[Part]:
    """Which tickets are ahead of the one with this fence. 0: of a ticket that is about to join."""
    keys, share = entry.keys, entry.record.share
    marker = get(keys.marker)
    if not share.group:
        return [marker, newest(keys.queue, keys.end, before=fence)]
    steps = [marker, *(newest(*part, before=fence) for part in keys.others(share.group))]
    if share.weight:
        peers = keys.peers(share.group)
        # One more than the permits: that many can't all be admitted.
        limit = 0 if all_peers else min(share.permits, _FIRST_PEERS) + 1
        steps += [oldest(*peers, limit, before=fence), newest(*peers, before=fence)]
    return steps


def read_search(entry: Entry, fence: int, answers: Sequence[ResponseOp]) -> Seen:
    marker = Marker.read(answers[0].response_range)
    if not entry.shares:
        return Seen(fence, Blockers(tickets_in(answers[1])), marker)
    others = [*tickets_in(answers[1]), *tickets_in(answers[2])]
    if len(answers) == 3:
        queue = QueueAhead(others)
    else:
        complete = not answers[3].response_range.more
        queue = QueueAhead(others, tickets_in(answers[3]), complete, tickets_in(answers[4]))
    return Seen(fence, blockers(entry.record.share, queue), marker)


def tickets_in(answer: ResponseOp) -> tuple[Ahead, ...]:
    return tuple(map(Ahead.read, answer.response_range.kvs))


# --- looking again, without renewing


def look(entry: Entry, view: View, *, all_peers: bool = False, local: bool = False) -> TxnRequest:
    """Where a ticket with a known fence stands. `local`: as far as the server that is asked knows.

    It only reads, and nothing is nested in it: such a transaction costs the servers no write. If the marker
    says that the ticket right ahead released, that ticket was the first, and this one is now. Then etcd need
    not go through the queue.
    """
    mine = created_at(entry.key, view.fence)
    everything = search(entry, view.fence, all_peers=all_peers)
    if _is_right_behind(entry, view):
        marker = entry.keys.marker
        released = f"released {view.ahead[0].fence}".encode()  # whenever that was
        request = txn(
            [mine, value_above(marker, released + b" "), value_below(marker, released + b"!")],
            [get(marker)],
            [get_without_value(entry.key), *everything],
        )
    else:
        request = txn([mine], everything)
    if local:
        for step in (*request.success, *request.failure):
            step.request_range.serializable = True
    return request


def read_look(entry: Entry, view: View, answer: TxnResponse) -> Seen | None:
    """None: the ticket is not in the queue."""
    if not _is_right_behind(entry, view):
        return read_search(entry, view.fence, answer.responses) if answer.succeeded else None
    if answer.succeeded:
        return Seen(view.fence, marker=Marker.read(answer.responses[0].response_range))
    own = first(answer.responses[0].response_range)
    if own is None or own.create_revision != view.fence:
        return None
    return read_search(entry, view.fence, answer.responses[1:])


def _is_right_behind(entry: Entry, view: View) -> bool:
    """Whether the ticket that it waits for is the one right ahead of it in the queue."""
    return bool(view.ahead) and not entry.shares


# --- renewing


def renewal(entry: Entry, view: View, change: Change) -> list[Part]:
    """Extend a ticket that is there, and look where it stands."""
    extend = store(entry, change)
    if view.admitted:
        return [extend]
    everything = search(entry, view.fence)
    if not _compares(view):
        return [extend, nested([], everything)]
    # Most often the tickets ahead are the same as before. Then etcd need not go through the whole queue.
    same_ahead = [created_at(one.key, one.fence) for one in view.ahead]
    return [extend, nested(same_ahead, [get(one.key) for one in view.ahead], everything)]


def read_renewal(entry: Entry, view: View, answers: Sequence[ResponseOp]) -> Seen:
    """`view` is the one with which the renewal was built."""
    if len(answers) == 1:
        return Seen(view.fence, asked=False)
    found = answers[1].response_txn
    if not _compares(view) or not found.succeeded:
        return read_search(entry, view.fence, found.responses)
    ahead = tuple(one for answer in found.responses for one in tickets_in(answer))
    if not all(map(Ahead.only_renewed, ahead, view.ahead)):
        return Seen(view.fence, None)
    return Seen(view.fence, view.blockers._replace(ahead=ahead))


def _compares(view: View) -> bool:
    """Whether a renewal asks first if the tickets ahead are the same as before."""
    return view.blockers.decisive and len(view.ahead) <= _MAX_COMPARED


def changed_by_another(answers: Sequence[ResponseOp]) -> KeyValue | None:
    """What another client has stored for the ticket since. Then it was not renewed. None: it was."""
    stored = answers[0].response_txn
    return None if stored.succeeded else first(stored.responses[0].response_range)


# --- storing a record


def store(entry: Entry, change: Change) -> Part:
    """Renew a ticket and store its record, unless another client has stored one: then read that."""
    steps = [touch(entry.key)] if change.after is change.before else puts(entry, change.after)
    return nested([value_is(entry.key, change.before.value)], steps, [get(entry.key)])


def puts(entry: Entry, stored: Stored) -> list[Part]:
    """Store a ticket and its pointer, both on the same lease, so that they also end together."""
    assert stored.lease is not None
    lease = stored.lease.id
    return [put(entry.key, stored.value, lease), put(entry.pointer, entry.key, lease)]


def deletes(entry: Entry) -> list[Part]:
    return [delete(entry.key), delete(entry.pointer)]
