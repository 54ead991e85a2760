"""Whole queues: which tickets hold and wait, which names are in use, and taking out all holders."""

from __future__ import annotations

import time
from functools import partial
from typing import NamedTuple

from fencelock.core.admission import fits
from fencelock.core.names import matches
from fencelock.core.ticket import Holder, Inspection, Owner, Share, Waiter
from fencelock.engines.etcd.admission import Ahead
from fencelock.engines.etcd.cluster import Cluster
from fencelock.engines.etcd.keys import QUEUES, QUEUES_END, Keys, name_of
from fencelock.engines.etcd.leases import Lease
from fencelock.engines.etcd.markers import mark
from fencelock.engines.etcd.messages_pb2 import KeyValue, RangeRequest, TxnRequest
from fencelock.engines.etcd.tickets import Tickets
from fencelock.engines.etcd.values import Marker, Record
from fencelock.engines.etcd.wire import (
    BATCH,
    created_at,
    delete,
    first,
    get,
    nested,
    newest,
    oldest,
    txn,
)

_PAGE = 5_000
"""Keys that one request lists."""


class _Front(NamedTuple):
    """The beginning of a queue at one moment."""

    holders: list[KeyValue]
    waiters: list[KeyValue]
    waiting: int
    """How many tickets wait, listed or not."""
    newest: int
    """The fence of the last ticket."""
    marker: Marker | None


async def inspect(tickets: Tickets, name: str, limit: int, until: float) -> Inspection:
    keys = Keys.of(name)
    front = await _front(tickets, keys, limit, until)
    marker, fence = front.marker, front.holders[0].create_revision if front.holders else 0
    abandoned = (await tickets.markers.meaning(keys, fence, marker, until)).abandoned
    holders = [Holder(*_described(tickets, kv)) for kv in front.holders]
    if marker is not None and marker.state != "held":
        # A ticket that was in the queue then holds since the ticket before it left.
        ago = max(0.0, time.time() - marker.at)
        holders = [one._replace(held_for=min(one.held_for, ago)) for one in holders]
    waiters = tuple(Waiter(*_described(tickets, kv)) for kv in front.waiters)
    return Inspection(name, tuple(holders), waiters, front.waiting, front.newest, abandoned)


async def names(cluster: Cluster, pattern: str, until: float) -> list[str]:
    found: set[str] = set()
    start = QUEUES
    while True:
        request = RangeRequest(key=start, range_end=QUEUES_END, limit=_PAGE, keys_only=True)
        answer = await cluster.read(request, until)
        found.update(name for kv in answer.kvs if (name := name_of(kv.key)) is not None)
        if not answer.more:
            return sorted(name for name in found if matches(name, pattern))
        start = answer.kvs[-1].key + b"\0"


async def evict(tickets: Tickets, name: str, until: float) -> bool:
    """Take out all holders. Returns False if there was none."""
    keys = Keys.of(name)
    while True:
        holders = (await _front(tickets, keys, 0, until)).holders
        if not holders:
            return False
        if Record.unpack(holders[0].value).share.group:
            evicted = await _evict_sharers(tickets, holders, until)
        else:
            request = partial(_evict, keys, holders[0])
            evicted = (await tickets.markers.write(request, until)).succeeded
        if evicted:
            return True


def _evict(keys: Keys, holder: KeyValue, markers: Lease) -> TxnRequest:
    """Take out a ticket that holds alone."""
    fence = holder.create_revision
    steps = [mark(keys, "abandoned", fence, markers), delete(holder.key)]
    return txn([created_at(holder.key, fence)], steps)


async def _evict_sharers(tickets: Tickets, holders: list[KeyValue], until: float) -> bool:
    """Take out tickets that share. The marker says nothing about them."""
    evicted = False
    for start in range(0, len(holders), BATCH):
        steps = [
            nested([created_at(one.key, one.create_revision)], [delete(one.key)])
            for one in holders[start : start + BATCH]
        ]
        answer = await tickets.cluster.txn(txn(then=steps), until, repeatable=True)
        evicted = evicted or any(op.response_txn.succeeded for op in answer.responses)
    return evicted


async def _front(tickets: Tickets, keys: Keys, waiters: int, until: float) -> _Front:
    """All tickets that hold, and the first of those that wait."""
    limit = waiters + 1
    while True:
        steps = [
            oldest(keys.queue, keys.end, limit),
            newest(keys.queue, keys.end),
            get(keys.marker),
        ]
        answer = await tickets.cluster.txn(txn(then=steps), until, repeatable=True)
        queue, last, marker = (response.response_range for response in answer.responses)
        holders = _holders(queue.kvs)
        if len(queue.kvs) - holders >= min(waiters, queue.count - holders) and (
            holders < len(queue.kvs) or holders == queue.count
        ):
            newest_ticket = first(last)
            return _Front(
                list(queue.kvs[:holders]),
                list(queue.kvs[holders : holders + waiters]),
                queue.count - holders,
                0 if newest_ticket is None else newest_ticket.create_revision,
                Marker.read(marker),
            )
        limit = 2 * limit + holders + waiters


def _holders(queue: list[KeyValue]) -> int:
    """How many of a queue's first tickets are admitted."""
    holding: list[Share] = []
    for kv in queue:
        share = Record.unpack(kv.value).share
        if not fits(share, holding):
            break
        holding.append(share)
    return len(holding)


def _described(tickets: Tickets, kv: KeyValue) -> tuple[Owner, int, float, float, Share]:
    record = Record.unpack(kv.value)
    since_joined = max(0.0, time.time() - record.joined)
    left = tickets.left(Ahead.read(kv), passing=True)
    return record.owner, kv.create_revision, since_joined, left, record.share
