"""Leaving a queue. The marker then says how the last holder left; see `markers.py`."""

from __future__ import annotations

from functools import partial

from fencelock.core.ticket import Departure, Ticket
from fencelock.engines.etcd.entry import Entry
from fencelock.engines.etcd.leases import Lease
from fencelock.engines.etcd.looking import deletes
from fencelock.engines.etcd.markers import mark, mark_for_sharers
from fencelock.engines.etcd.messages_pb2 import TxnRequest
from fencelock.engines.etcd.tickets import Tickets
from fencelock.engines.etcd.values import Marker
from fencelock.engines.etcd.wire import (
    Part,
    created_at,
    delete,
    get,
    nested,
    none_after,
    none_before,
    txn,
)


async def leave(tickets: Tickets, ticket: Ticket, departure: Departure, until: float) -> bool:
    known = tickets.entries.pop(ticket.id, None)
    entry = known if known is not None and known.view.fence else None
    left = False
    while not left:
        # If it is not known, it has left before, another client has entered it, or its request to join
        # arrives late.
        if entry is None:
            (entry,) = await tickets.search([ticket], until)
        if entry is None:
            break
        left = await _remove(tickets, entry, departure, until)
        entry = None  # if it was not there, it may have joined anew
    if known is not None:
        tickets.give_back(ticket.id, known)
    return left


async def _remove(tickets: Tickets, entry: Entry, departure: Departure, until: float) -> bool:
    """Take out the ticket with the known fence. Returns False if it was not there."""
    view = entry.view
    if entry.shares:
        if not view.admitted:
            request = txn([_mine(entry)], deletes(entry))
            return (await tickets.cluster.txn(request, until)).succeeded
        answer = await tickets.markers.write(partial(_release_share, entry), until)
        # It was there in one of two cases: the only ticket, or the nested transaction found it.
        otherwise = answer.responses[0].response_txn if answer.responses else answer
        return answer.succeeded or otherwise.succeeded
    abandoned = departure is Departure.LOST
    withdrawn = departure is Departure.WITHDRAWN
    if not abandoned and not view.admitted:
        answer = await tickets.cluster.txn(_withdraw(entry), until)
        if not answer.succeeded:
            return False
        was_first = answer.responses[0].response_txn
        if not was_first.succeeded:
            return True  # others were ahead of it
        if withdrawn:
            marker = Marker.read(was_first.responses[0].response_range)
            found = await tickets.markers.meaning(entry.keys, view.fence, marker, until)
            abandoned = found.abandoned
    elif withdrawn:
        abandoned = view.abandoned
    remove = _abandon if abandoned else _release
    return (await tickets.markers.write(partial(remove, entry), until)).succeeded


# --- the transactions


def _release(entry: Entry, markers: Lease) -> TxnRequest:
    """Take out a ticket that is known to hold alone. If it is the last in the queue, the marker goes too."""
    keys, fence = entry.keys, entry.view.fence
    is_last = [none_after(keys.queue, keys.end, fence)]
    if entry.view.revision > fence:
        # It has waited, so others may wait, too. If they are many, some are near, and etcd need not go
        # through them all.
        is_last.insert(0, none_after(*keys.near(entry.key), fence))
    everything = delete(keys.everything, keys.everything_end)
    released = mark(keys, "released", fence, markers)
    gone = nested(is_last, [everything], [delete(entry.key), released])
    return txn([_mine(entry)], [gone, delete(entry.pointer)])


def _abandon(entry: Entry, markers: Lease) -> TxnRequest:
    """Take out a ticket. If it is the first, the next holder finds the name abandoned."""
    abandoned = mark(entry.keys, "abandoned", entry.view.fence, markers)
    return txn([_mine(entry)], [nested([_is_first(entry)], [abandoned]), *deletes(entry)])


def _withdraw(entry: Entry) -> TxnRequest:
    """Take out a ticket unless it is the first. If it is, read the marker, which says how it must leave."""
    unless_first = nested([_is_first(entry)], [get(entry.keys.marker)], deletes(entry))
    return txn([_mine(entry)], [unless_first])


def _release_share(entry: Entry, markers: Lease) -> TxnRequest:
    """Take out a ticket that shares and is known to be admitted. If it is the last, the marker goes too.

    If a ticket that waits to hold alone may now be the first, the marker says "released", so that this
    ticket need not mark that it holds.
    """
    keys, fence, mine = entry.keys, entry.view.fence, _mine(entry)
    if entry.view.abandoned:
        return txn([mine], [mark_for_sharers(keys, True, markers), *deletes(entry)])
    only_peers = [
        none_after(part.key, part.end, fence) for part in keys.others(entry.record.share.group)
    ]
    released = nested(only_peers, [], [mark(keys, "released", fence, markers)])
    return txn(
        [mine, _is_first(entry), none_after(keys.queue, keys.end, fence)],
        [delete(keys.everything, keys.everything_end), delete(entry.pointer)],
        [nested([mine], [nested([_is_first(entry)], [released]), *deletes(entry)])],
    )


def _mine(entry: Entry) -> Part:
    return created_at(entry.key, entry.view.fence)


def _is_first(entry: Entry) -> Part:
    return none_before(entry.keys.queue, entry.keys.end, entry.view.fence)
