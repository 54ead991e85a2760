"""What people want to see: who holds, who waits, which names are in use."""

from __future__ import annotations

import time
from typing import Any

from fencelock.core.names import matches
from fencelock.core.ticket import Holder, Inspection, Owner, Share, Waiter
from fencelock.engines.zookeeper import requests
from fencelock.engines.zookeeper.batch import gone, value
from fencelock.engines.zookeeper.nodes import TicketData, sequence, unescaped
from fencelock.engines.zookeeper.queues import Queues

_MAX_BATCH = 500
"""How many names are looked at in one round trip."""


async def inspect(queues: Queues, name: str, limit: int, until: float) -> Inspection:
    """Who stands in a queue: listed first, then read one by one, and again if a holder left meanwhile."""
    parent = queues.path_of(name)
    while True:
        queue = await queues.read(parent, until)
        if queue is None:
            return Inspection(name, (), (), 0, 0, False)
        listing, record, stat = queue
        if not listing.nodes:
            vanished = stat.pzxid != stat.mzxid and record.state != "shared"
            return Inspection(name, (), (), 0, 0, record.abandoned or vanished)
        holding = len(listing.holders())
        shown = [*listing.nodes[: holding + limit], listing.nodes[-1]]
        replies = await queues.ask(until, *(requests.get(f"{parent}/{node}") for node in shown))
        if any(map(gone, replies[:holding])):
            continue
        seen = [
            None if gone(reply) else _ticket(reply, listing.share(node))
            for node, reply in zip(shown, replies, strict=True)
        ]
        listed = [one for one in seen[:-1] if one is not None]
        holders = tuple(Holder(*fields) for fields in listed[:holding])
        if record.state != "shared":  # then the record was written when the last holder departed
            age = _ago(stat.mtime)
            holders = tuple(one._replace(held_for=min(one.held_for, age)) for one in holders)
        vanished = record.state == "held" and record.seq not in {*map(sequence, listing.nodes)}
        return Inspection(
            name,
            holders,
            tuple(Waiter(*fields) for fields in listed[holding:]),
            len(listing.nodes) - holding,
            max(one[1] for one in seen if one is not None),
            record.abandoned or vanished,
        )


async def names_in_use(queues: Queues, pattern: str, until: float) -> list[str]:
    """The names that match a pattern and have tickets, sorted."""
    root = queues.root
    _, children = await queues.ask(until, requests.sync(root), requests.children(root))
    if gone(children):
        return []
    found = [name for name in map(unescaped, value(children)) if matches(name, pattern)]
    used: list[str] = []
    for start in range(0, len(found), _MAX_BATCH):
        names = found[start : start + _MAX_BATCH]
        stats = await queues.ask(until, *(requests.exists(queues.path_of(name)) for name in names))
        used += [
            name
            for name, stat in zip(names, stats, strict=True)
            if stat is not None and value(stat).numChildren > 0
        ]
    return sorted(used)


def _ticket(reply: Any, share: Share) -> tuple[Owner, int, float, float, Share]:
    data, stat = TicketData.unpack(value(reply)[0]), reply[1]
    left = max(0.0, data.ttl - _ago(stat.mtime))
    return data.owner, stat.czxid, _ago(stat.ctime), left, share


def _ago(moment_ms: int) -> float:
    """Seconds since a moment of the servers' wall clock. Only for people, as clocks differ."""
    return max(0.0, time.time() - moment_ms / 1000)
