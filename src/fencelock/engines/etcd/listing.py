"""Whole queues: which tickets hold and wait, which names are in use, and taking out all holders."""

from __future__ import annotations

import time
from collections.abc import Sequence
from functools import partial

from fencelock.core.admission import fits
from fencelock.core.names import matches
from fencelock.core.ticket import Holder, Inspection, Owner, Share, Waiter
from fencelock.engines.etcd.admission import Ahead
from fencelock.engines.etcd.cluster import Cluster
from fencelock.engines.etcd.keys import QUEUES, QUEUES_END, Keys, name_of
from fencelock.engines.etcd.leases import Lease
from fencelock.engines.etcd.markers import mark
from fencelock.engines.etcd.messages_pb2 import KeyValue, RangeRequest, RangeResponse, TxnRequest
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


async def inspect(tickets: Tickets, name: str, limit: int, until: float) -> Inspection:
    keys = Keys.of(name)
    holding, queue, last, marker = await _front(tickets, keys, limit, until)
    fence = queue.kvs[0].create_revision if holding else 0
    abandoned = (await tickets.markers.meaning(keys, fence, marker, until)).abandoned
    holders = [Holder(*_described(tickets, kv)) for kv in queue.kvs[:holding]]
    if marker is not None and marker.state != "held":
        # A ticket that was in the queue then holds since the ticket before it left.
        ago = max(0.0, time.time() - marker.at)
        holders = [one._replace(held_for=min(one.held_for, ago)) for one in holders]
    listed = queue.kvs[holding : holding + limit]
    waiters = tuple(Waiter(*_described(tickets, kv)) for kv in listed)
    waiting = queue.count - holding
    return Inspection(name, tuple(holders), waiters, waiting, last, abandoned)


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
    keys, evicted = Keys.of(name), False
    while not evicted:
        holding, queue, *_ = await _front(tickets, keys, 0, until)
        if not holding:
            return False
        for start in range(0, holding, BATCH):
            request = partial(_evict, keys, queue.kvs[start : min(start + BATCH, holding)])
            answer = await tickets.markers.write(request, until)
            evicted = evicted or any(op.response_txn.succeeded for op in answer.responses)
    return True


def _evict(keys: Keys, holders: Sequence[KeyValue], markers: Lease) -> TxnRequest:
    """Take out the tickets that are still there. The marker says nothing about those that share."""
    steps = []
    for kv in holders:
        fence, record = kv.create_revision, Record.unpack(kv.value)
        marked = [] if record.share.group else [mark(keys, "abandoned", fence, markers)]
        gone = [delete(kv.key), delete(keys.pointer(record.id))]
        steps.append(nested([created_at(kv.key, fence)], [*marked, *gone]))
    return txn(then=steps)


async def _front(
    tickets: Tickets, keys: Keys, waiters: int, until: float
) -> tuple[int, RangeResponse, int, Marker | None]:
    """How many hold, the queue up to the waiters asked for, its last fence, and the marker."""
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
        if not queue.more or len(queue.kvs) - holders >= max(waiters, 1):
            newest_ticket = first(last)
            fence = 0 if newest_ticket is None else newest_ticket.create_revision
            return holders, queue, fence, Marker.read(marker)
        limit = 2 * limit + holders + waiters


def _holders(queue: Sequence[KeyValue]) -> int:
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
    left = tickets.left(Ahead.read(kv))
    return record.owner, kv.create_revision, since_joined, left, record.share
