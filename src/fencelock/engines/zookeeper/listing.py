"""What people want to see: who holds, who waits, which names are in use."""

from __future__ import annotations

import time
from typing import Any

from fencelock.core.names import matches
from fencelock.core.ticket import Holder, Inspection, Owner, Share, Waiter
from fencelock.engines.zookeeper import requests as ask
from fencelock.engines.zookeeper.admission import Line
from fencelock.engines.zookeeper.nodes import Mark, Slip, sequence, unescaped
from fencelock.engines.zookeeper.queue import Queues, value
from fencelock.engines.zookeeper.requests import Stat

_BATCH = 500


async def inspected(queues: Queues, name: str, limit: int, until: float) -> Inspection:
    """Who stands in a queue: listed first, then read one by one, and again if the holder left."""
    parent = queues.path_of(name)
    sync, children, get = ask.sync(parent), ask.children(parent), ask.get(parent)
    while True:
        _, listing, container = await queues.ask(until, sync, children, get)
        if ask.gone(listing) or ask.gone(container):
            return Inspection(name, (), (), 0, 0, False)
        data, about = value(container)
        stat, mark = Stat._make(about), Mark.unpack(data)
        line = Line.of(value(listing))
        if not line.nodes:
            silent = stat.pzxid != stat.mzxid and mark.state != "shared"
            return Inspection(name, (), (), 0, 0, mark.abandoned or silent)
        holding = len(line.holders())
        shown = [*line.nodes[: holding + limit], line.nodes[-1]]
        replies = await queues.ask(until, *(ask.get(f"{parent}/{node}") for node in shown))
        if any(map(ask.gone, replies[:holding])):
            continue
        seen = [
            None if ask.gone(reply) else _ticket(reply, line.share(node))
            for node, reply in zip(shown, replies, strict=True)
        ]
        listed = [one for one in seen[:-1] if one is not None]
        holders = tuple(Holder(*fields) for fields in listed[:holding])
        if mark.state != "shared":  # then the last mark is from when the one before it departed
            marked = _ago(stat.mtime)
            holders = tuple(one._replace(held_for=min(one.held_for, marked)) for one in holders)
        vanished = mark.state == "held" and mark.seq not in {sequence(node) for node in line.nodes}
        fence = max(one[1] for one in seen if one is not None)
        return Inspection(
            name,
            holders,
            tuple(Waiter(*fields) for fields in listed[holding:]),
            len(line.nodes) - holding,
            fence,
            mark.abandoned or vanished,
        )


async def names_in_use(queues: Queues, pattern: str, until: float) -> list[str]:
    _, listing = await queues.ask(until, ask.sync(queues.root), ask.children(queues.root))
    if ask.gone(listing):
        return []
    found = [name for name in map(unescaped, value(listing)) if matches(name, pattern)]
    used: list[str] = []
    for start in range(0, len(found), _BATCH):
        names = found[start : start + _BATCH]
        stats = await queues.ask(until, *(ask.exists(queues.path_of(name)) for name in names))
        used += [name for name, stat in zip(names, stats, strict=True) if _has_tickets(stat)]
    return sorted(used)


def _has_tickets(stat: Any) -> bool:
    return stat is not None and Stat._make(value(stat)).children > 0


def _ticket(reply: Any, share: Share) -> tuple[Owner, int, float, float, Share]:
    data, about = value(reply)
    slip, stat = Slip.unpack(data), Stat._make(about)
    left = min(slip.ttl, max(0.0, slip.ttl - _ago(stat.mtime)))
    return slip.owner, stat.czxid, _ago(stat.ctime), left, share


def _ago(moment_ms: int) -> float:
    """Seconds since a moment of the servers' wall clock; for people only, as clocks differ."""
    return max(0.0, time.time() - moment_ms / 1000)
