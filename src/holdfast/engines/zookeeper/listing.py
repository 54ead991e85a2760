"""What people want to see: who holds, who waits, which names are in use."""

from __future__ import annotations

import time
from typing import Any

from holdfast.core.names import matches
from holdfast.core.ticket import Contender, Inspection
from holdfast.engines.zookeeper import requests as ask
from holdfast.engines.zookeeper.nodes import Mark, Slip, in_order, unescaped
from holdfast.engines.zookeeper.queue import Queues, value
from holdfast.engines.zookeeper.requests import Stat

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
        ordered = in_order(value(listing))
        if not ordered:
            silent = stat.pzxid != stat.mzxid
            return Inspection(name, (), (), 0, 0, mark.abandoned or silent)
        shown = [*ordered[: 1 + limit], ordered[-1]]
        replies = await queues.ask(until, *(ask.get(f"{parent}/{node}") for node in shown))
        if ask.gone(replies[0]):
            continue
        *listed, newest = (_contender(reply) for reply in replies if not ask.gone(reply))
        holder, *waiters = listed or [newest]
        holder = holder._replace(since=min(holder.since, _ago(stat.mtime)))
        fence = max(one.fence for one in (holder, *waiters, newest))
        return Inspection(name, (holder,), tuple(waiters), len(ordered) - 1, fence, mark.abandoned)


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


def _contender(reply: Any) -> Contender:
    data, about = value(reply)
    slip, stat = Slip.unpack(data), Stat._make(about)
    left = min(slip.ttl, max(0.0, slip.ttl - _ago(stat.mtime)))
    return Contender(slip.owner, stat.czxid, _ago(stat.ctime), left)


def _ago(moment_ms: int) -> float:
    """Seconds since a moment of the servers' wall clock; for people only, as clocks differ."""
    return max(0.0, time.time() - moment_ms / 1000)
