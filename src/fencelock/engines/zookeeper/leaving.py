"""How a ticket leaves its queue: released or withdrawn, refused, or evicted."""

from __future__ import annotations

from kazoo.exceptions import NoAuthError

from fencelock.core.ticket import Departure, Place, Standing
from fencelock.engines.zookeeper import requests
from fencelock.engines.zookeeper.admission import Listing
from fencelock.engines.zookeeper.batch import done, gone, missing, rejection, value
from fencelock.engines.zookeeper.entry import Entry
from fencelock.engines.zookeeper.nodes import HolderRecord, release_signal, sequence
from fencelock.engines.zookeeper.queueing import read_queue
from fencelock.engines.zookeeper.queues import GONE, Queues, removal
from fencelock.engines.zookeeper.requests import Request

_DELETION = -2
"""The part of the transactions of `_departure` and `withdraw` that deletes the ticket."""


async def leave(queues: Queues, entry: Entry, departure: Departure, until: float) -> bool:
    """Take a ticket out. Returns False if it was not there.

    A ticket that may hold or share without knowing it looks first, because of what it would have to record.
    """
    blockers = entry.blockers
    may_hold = not entry.holds and (blockers.short or not blockers.nodes)
    may_share = entry.downgrade is not None and not entry.share.group
    if (may_hold or may_share) and await read_queue(queues, entry, until, watch=False) == GONE:
        return False
    while True:
        (left,) = await queues.ask(until, _departure(queues, entry, departure))
        if done(left) or gone(left) or missing(left, _DELETION):
            return done(left)
        signal = left[:_DELETION] if isinstance(left, list) else ()
        if entry.holds and any(isinstance(part, NoAuthError) for part in signal):
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
            if gone(seen) or not queues.is_dead(value(seen)):
                return Standing(Place.REFUSED)
            (children,) = await queues.ask(until, requests.children(entry.parent))
            listing = Listing.of(value(children))
            if node in listing.nodes:
                await queues.expire(entry.parent, listing, node, seen[1].version, until)
            return GONE
        if missing(left):
            return GONE
        standing = await read_queue(queues, entry, until, watch=False)
        if standing.place is not Place.WAITING:
            return standing


async def evict(queues: Queues, name: str, until: float) -> bool:
    """Take out all holders. Returns False if there was none."""
    parent = queues.path_of(name)
    while True:
        queue = await queues.read(parent, until)
        if queue is None or not queue[0].nodes:
            return False
        listing, record, stat = queue
        holders = listing.holders()
        wanted = [removal(parent, listing, node) for node in holders]
        if listing.share(holders[0]).group and record.state != "shared":
            # The first holder that shares may not know yet that it holds: write the record for it.
            new = HolderRecord(None, record.abandoned or record.state == "held", "shared")
            wanted.insert(0, requests.touch(parent, new.pack(), stat.version))
        replies = (await queues.ask(until, *wanted))[-len(holders) :]
        if any(map(done, replies)):
            return True
        for reply in replies:
            if not gone(reply) and not missing(reply):
                raise rejection(reply)
