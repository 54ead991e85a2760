"""How a ticket leaves its queue: released or withdrawn, refused, or evicted."""

from __future__ import annotations

from typing import Any

from fencelock.core.ticket import Departure, Place, Standing
from fencelock.engines.zookeeper import requests
from fencelock.engines.zookeeper.admission import Listing
from fencelock.engines.zookeeper.batch import done, forbidden, gone, missing, rejection, value
from fencelock.engines.zookeeper.entry import Entry
from fencelock.engines.zookeeper.nodes import HolderRecord, release_signal, sequence
from fencelock.engines.zookeeper.queueing import read_queue
from fencelock.engines.zookeeper.queues import GONE, Queues
from fencelock.engines.zookeeper.requests import Request

_DELETION = -2
"""The part of the transactions of `_departure` and `withdraw` that deletes the ticket."""


async def leave(queues: Queues, entry: Entry, departure: Departure, until: float) -> bool:
    """Take a ticket out. Returns False if it was not there.

    A ticket that may hold without knowing it looks first, because of what it would have to record.
    """
    blockers = entry.blockers
    unknown = entry.downgrade_unknown or (
        not entry.holds and (blockers.short or not blockers.nodes)
    )
    if unknown and await read_queue(queues, entry, until, watch=False) == GONE:
        return False
    while True:
        (left,) = await queues.ask(until, _departure(queues, entry, departure))
        if done(left) or gone(left) or missing(left, _DELETION):
            return done(left)
        if entry.holds and queues.signals_releases and forbidden(left, _DELETION):
            queues.signals_releases = False  # the next holder finds out by itself
            continue
        if entry.holds:
            raise rejection(left)
        # The ticket ahead is gone: perhaps this one holds by now.
        if await read_queue(queues, entry, until, watch=False) == GONE:
            return False


def _departure(queues: Queues, entry: Entry, departure: Departure) -> Request:
    if entry.share.group and (entry.holds or entry.blockers.short):
        return requests.delete_sharing(entry.parent, entry.node, entry.downgrade)
    if not entry.holds:
        assert entry.ahead is not None
        return requests.withdraw(entry.path, entry.path_of(entry.ahead))
    abandoned = departure.abandoned(entry.abandoned)
    record = HolderRecord(sequence(entry.node), abandoned).pack()
    if abandoned or not queues.signals_releases:
        return requests.depart(entry.path, entry.parent, record)
    signal = release_signal(queues.root, entry.node)  # gone at once, but who watches it is told
    return requests.transaction(
        requests.create(signal, b"", queues.acl),
        requests.delete(signal),
        requests.delete(entry.path),
        requests.touch(entry.parent, record),
    )


async def refuse(queues: Queues, entry: Entry, until: float) -> Standing:
    """Take out a ticket that joined only if free, unless it is admitted by now.

    GONE: it was taken out, and so was a ticket ahead that had expired. Another attempt may succeed.
    """
    while True:
        node = entry.ahead
        if node is None:  # it was evicted at once
            return GONE
        path = entry.path_of(node)
        seen, left = await queues.ask(
            until, requests.get(path), requests.withdraw(entry.path, path)
        )
        if done(left):
            return await _refused(queues, entry, node, seen, until)
        if missing(left):
            return GONE
        standing = await read_queue(queues, entry, until, watch=False)
        if standing.place is not Place.WAITING:
            return standing


async def _refused(queues: Queues, entry: Entry, node: str, seen: Any, until: float) -> Standing:
    """Take out the ticket ahead if it has expired."""
    if gone(seen):
        return Standing(Place.REFUSED)
    queues.watches.saw(entry, node, value(seen))
    if node not in queues.watches.expired(entry):
        return Standing(Place.REFUSED)
    listing = Listing.of(value((await queues.ask(until, requests.children(entry.parent)))[0]))
    if node in listing.nodes:
        await queues.expire(entry.parent, listing, node, seen[1].version, until)
    return GONE


async def evict(queues: Queues, name: str, until: float) -> bool:
    """Take out all holders. Returns False if there was none."""
    parent = queues.path_of(name)
    wanted = requests.sync(parent), requests.children(parent), requests.get(parent)
    while True:
        _, children, container = await queues.ask(until, *wanted)
        listing = Listing.of([] if gone(children) else value(children))
        holders = listing.holders()
        if not holders:
            return False
        if listing.share(holders[0]).group:
            removals = [
                requests.delete_sharing(parent, node, listing.downgrade_of(node))
                for node in holders
            ]
            records = _shared_record(parent, value(container))
        else:
            record = HolderRecord(sequence(holders[0]), abandoned=True)
            removals = [requests.depart(f"{parent}/{holders[0]}", parent, record.pack())]
            records = []
        replies = (await queues.ask(until, *records, *removals))[len(records) :]
        if any(map(done, replies)):
            return True
        for reply in replies:
            if not gone(reply) and not missing(reply):
                raise rejection(reply)


def _shared_record(parent: str, container: Any) -> list[Request]:
    """Write the record of the first holder that shares, in case it does not know yet that it holds."""
    data, stat = container
    record = HolderRecord.unpack(data)
    if record.state == "shared":
        return []
    new = HolderRecord(None, record.abandoned or record.state == "held", "shared")
    return [requests.touch(parent, new.pack(), stat.version)]
