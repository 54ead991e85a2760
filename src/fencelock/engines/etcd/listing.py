"""The whole queue of a name: who holds and who waits, for people; and taking out all who hold."""

from __future__ import annotations

import time
from typing import NamedTuple

from fencelock.core.admission import fits
from fencelock.core.ticket import Holder, Inspection, Owner, Share, Waiter
from fencelock.engines.etcd import requests
from fencelock.engines.etcd.admission import Ahead
from fencelock.engines.etcd.keys import Card, Keys
from fencelock.engines.etcd.messages_pb2 import KeyValue
from fencelock.engines.etcd.queues import Queues
from fencelock.engines.etcd.traces import Trace
from fencelock.engines.etcd.troubles import LeaseGone
from fencelock.engines.etcd.wire import first

_CHUNK = 100
"""Tickets that are taken out in one transaction; etcd takes 128 steps by default."""


class _Front(NamedTuple):
    """The beginning of a queue, in one moment."""

    holders: list[KeyValue]
    waiters: list[KeyValue]
    waiting: int
    newest: int
    """The last one's fence."""
    trace: Trace | None


async def inspected(queues: Queues, name: str, limit: int, until: float) -> Inspection:
    """Who stands in a queue."""
    keys = Keys.of(name)
    front = await _front(queues, keys, limit, until)
    trace, fence = front.trace, front.holders[0].create_revision if front.holders else 0
    abandoned = (await queues.verdicts.of(keys, fence, trace, until)).abandoned
    holders = [Holder(*_ticket(queues, kv)) for kv in front.holders]
    if trace is not None and trace.state != "held":
        # Who was there already is a holder since the one before it left.
        ago = max(0.0, time.time() - trace.at)
        holders = [one._replace(held_for=min(one.held_for, ago)) for one in holders]
    waiters = tuple(Waiter(*_ticket(queues, kv)) for kv in front.waiters)
    return Inspection(name, tuple(holders), waiters, front.waiting, front.newest, abandoned)


async def evict(queues: Queues, keys: Keys, until: float) -> bool:
    """Take out all who hold; False: nobody did."""
    while True:
        holders = (await _front(queues, keys, 0, until)).holders
        if not holders:
            return False
        if Card.unpack(holders[0].value).share.group:
            if await _evict_all(queues, holders, until):
                return True
            continue
        traces = await queues.leases.traces(until)
        try:
            evicted = await queues.ask(requests.evict(keys, holders[0], traces), until)
        except LeaseGone:
            queues.leases.forget(traces)
            continue
        if evicted.succeeded:
            return True


async def _evict_all(queues: Queues, holders: list[KeyValue], until: float) -> bool:
    evicted = False
    for start in range(0, len(holders), _CHUNK):
        request = requests.evict_all(holders[start : start + _CHUNK])
        answer = await queues.ask(request, until, repeatable=True)
        evicted = evicted or any(op.response_txn.succeeded for op in answer.responses)
    return evicted


async def _front(queues: Queues, keys: Keys, waiters: int, until: float) -> _Front:
    """All who hold, and the first of those who wait."""
    limit = waiters + 1
    while True:
        answer = await queues.ask(requests.inspect(keys, limit), until, repeatable=True)
        queue = answer.responses[0].response_range
        holders = _holders(queue.kvs)
        if len(queue.kvs) - holders >= min(waiters, queue.count - holders) and (
            holders < len(queue.kvs) or holders == queue.count
        ):
            newest = first(answer.responses[1].response_range)
            return _Front(
                list(queue.kvs[:holders]),
                list(queue.kvs[holders : holders + waiters]),
                queue.count - holders,
                0 if newest is None else newest.create_revision,
                Trace.read(first(answer.responses[2].response_range)),
            )
        limit = 2 * limit + holders + waiters


def _holders(queue: list[KeyValue]) -> int:
    """How many of a queue's first tickets are admitted."""
    holding: list[Share] = []
    for kv in queue:
        share = Card.unpack(kv.value).share
        if not fits(share, holding):
            break
        holding.append(share)
    return len(holding)


def _ticket(queues: Queues, kv: KeyValue) -> tuple[Owner, int, float, float, Share]:
    card = Card.unpack(kv.value)
    since = max(0.0, time.time() - card.joined)
    left = queues.left(Ahead.read(kv), glimpsed=True)
    return card.owner, kv.create_revision, since, left, card.share
