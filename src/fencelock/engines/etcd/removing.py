"""Transactions that take tickets out of a queue, and say in the marker how; see `markers.py`."""

from __future__ import annotations

from collections.abc import Sequence

from fencelock.engines.etcd.admission import Ahead
from fencelock.engines.etcd.entry import Entry
from fencelock.engines.etcd.keys import Keys
from fencelock.engines.etcd.leases import Lease
from fencelock.engines.etcd.messages_pb2 import KeyValue, TxnRequest
from fencelock.engines.etcd.values import State, marker_value
from fencelock.engines.etcd.wire import (
    BATCH,
    Part,
    changed_at,
    created_at,
    delete,
    get,
    nested,
    newest,
    none_after,
    none_before,
    put,
    txn,
)

# --- one's own ticket


def release(entry: Entry, markers: Lease) -> TxnRequest:
    """Take out a ticket that is known to hold alone. If it is the last in the queue, the marker goes too."""
    keys, fence = entry.keys, entry.view.fence
    is_last = [none_after(keys.queue, keys.end, fence)]
    if entry.view.revision > fence:
        # It has waited, so others may wait, too. If they are many, some are near, and etcd need not go
        # through them all.
        is_last.insert(0, none_after(*keys.near(entry.key), fence))
    everything = delete(keys.everything, keys.everything_end)
    released = mark(keys, "released", fence, markers)
    return txn([_mine(entry)], [nested(is_last, [everything], [delete(entry.key), released])])


def abandon(entry: Entry, markers: Lease) -> TxnRequest:
    """Take out a ticket. If it is the first, the next holder finds the name abandoned."""
    abandoned = mark(entry.keys, "abandoned", entry.view.fence, markers)
    return txn([_mine(entry)], [nested([_is_first(entry)], [abandoned]), delete(entry.key)])


def withdraw(entry: Entry) -> TxnRequest:
    """Take out a ticket unless it is the first. If it is, read the marker, which says how it must leave."""
    unless_first = nested([_is_first(entry)], [get(entry.keys.marker)], [delete(entry.key)])
    return txn([_mine(entry)], [unless_first])


def release_share(entry: Entry, markers: Lease) -> TxnRequest:
    """Take out a ticket that shares and is known to be admitted. If it is the last, the marker goes too.

    If a ticket that waits to hold alone may now be the first, the marker says "released", so that this
    ticket need not mark that it holds.
    """
    keys, fence, mine = entry.keys, entry.view.fence, _mine(entry)
    if entry.view.abandoned:
        return txn([mine], [mark_for_sharers(keys, True, markers), delete(entry.key)])
    only_peers = [
        none_after(part.key, part.end, fence) for part in keys.others(entry.record.share.group)
    ]
    released = nested(only_peers, [], [mark(keys, "released", fence, markers)])
    return txn(
        [mine, _is_first(entry), none_after(keys.queue, keys.end, fence)],
        [delete(keys.everything, keys.everything_end)],
        [nested([mine], [nested([_is_first(entry)], [released]), delete(entry.key)])],
    )


def withdraw_share(entry: Entry) -> TxnRequest:
    """Take out a ticket that shares and may be waiting."""
    return txn([_mine(entry)], [delete(entry.key)])


# --- tickets of others


def remove_expired(
    keys: Keys, expired: Sequence[Ahead], markers: Lease, *, before: int = 0
) -> TxnRequest:
    """Take out tickets that have expired, unless one was renewed. If the first of them held alone, mark it.

    The last answer has the newest tickets that are left `before` a fence. That is how a client sees the
    other tickets of a row that died together.
    """
    first = min(expired, key=lambda one: one.fence)
    steps = [delete(one.key) for one in expired]
    if not first.share.group:
        is_first = none_before(keys.queue, keys.end, first.fence)
        steps.append(nested([is_first], [mark(keys, "abandoned", first.fence, markers)]))
    same = [changed_at(one.key, one.version) for one in expired]
    return txn(same, [*steps, newest(keys.queue, keys.end, BATCH, before=before)])


def evict(keys: Keys, holder: KeyValue, markers: Lease) -> TxnRequest:
    """Take out a ticket that holds alone."""
    fence = holder.create_revision
    return txn(
        [created_at(holder.key, fence)],
        [mark(keys, "abandoned", fence, markers), delete(holder.key)],
    )


def evict_sharers(holders: Sequence[KeyValue]) -> TxnRequest:
    """Take out tickets that share. The marker says nothing about them."""
    return txn(
        then=[
            nested([created_at(one.key, one.create_revision)], [delete(one.key)]) for one in holders
        ]
    )


# --- parts


def mark(keys: Keys, state: State, fence: int, markers: Lease) -> Part:
    return put(keys.marker, marker_value(state, fence), markers.id)


def mark_for_sharers(keys: Keys, abandoned: bool, markers: Lease) -> Part:
    """The marker that tickets that share leave behind: "abandoned" if they found the name so, else none."""
    return mark(keys, "abandoned", 0, markers) if abandoned else delete(keys.marker)


def _mine(entry: Entry) -> Part:
    return created_at(entry.key, entry.view.fence)


def _is_first(entry: Entry) -> Part:
    return none_before(entry.keys.queue, entry.keys.end, entry.view.fence)
