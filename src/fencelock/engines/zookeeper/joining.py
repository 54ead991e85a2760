"""How a ticket joins a queue, and how it is found again after a lost answer."""

from __future__ import annotations

from typing import Any

from kazoo.exceptions import NodeExistsError

from fencelock.core.ticket import Standing, Ticket
from fencelock.engines.zookeeper import requests
from fencelock.engines.zookeeper.admission import Listing
from fencelock.engines.zookeeper.batch import Batch
from fencelock.engines.zookeeper.entry import Entry
from fencelock.engines.zookeeper.looking import admit
from fencelock.engines.zookeeper.nodes import (
    HolderRecord,
    TicketData,
    digest,
    node_prefix,
    sequence,
)
from fencelock.engines.zookeeper.queues import Queues
from fencelock.engines.zookeeper.replies import gone, value


async def join(queues: Queues, ticket: Ticket, until: float) -> tuple[Entry, Standing | None]:
    """Let a new ticket join. Without a standing, it has to wait or was evicted at once.

    The container, read before the ticket is created, tells how the last holder departed. The listing after
    it tells which tickets are ahead. The three requests take no longer than the creation alone.
    """
    parent = queues.path_of(ticket.name)
    batch = await _create(queues, ticket, parent, until)
    before, created, children = batch.replies
    path, stat = value(created)
    entry = Entry(parent, path[len(parent) + 1 :], stat.czxid, batch.session)
    entry.renewed_data(ticket, queues.io.now())
    entry.record_zxid = 0 if isinstance(before, Exception) else before[1].mzxid
    listing = Listing.of(value(children))
    if entry.node not in listing.nodes:
        entry.gone = True
        return entry, None
    blockers = listing.blockers_of(entry.node)
    if blockers.nodes:
        queues.watches.wait_for(entry, blockers)
        entry.changed.update(blockers.nodes)
        return entry, None
    if not entry.record_zxid or not _is_current(before[1], entry, listing):
        before = value((await queues.ask(until, requests.get(parent)))[0])
    return entry, await admit(queues, entry, before, listing, until)


async def _create(queues: Queues, ticket: Ticket, parent: str, until: float) -> Batch:
    """Create a ticket, and first its container if that is not there: a name's first ticket in a while."""
    data = TicketData(ticket.ttl, ticket.owner).pack()
    create = requests.create_ticket(f"{parent}/{node_prefix(ticket)}", data, queues.acl)
    wanted = [requests.get(parent), create, requests.children(parent)]
    batch = await queues.transport.exchange(wanted, until)
    while gone(batch.replies[1]):
        record = HolderRecord(None, False, "shared").pack() if ticket.share.group else b""
        container = requests.create_container(parent, record, queues.acl)
        batch = await queues.transport.exchange([container, *wanted], until)
        made = batch.replies.pop(0)
        if gone(made):
            parts = queues.root.split("/")
            paths = ["/".join(parts[:end]) for end in range(2, len(parts) + 1)]
            await queues.make_nodes(paths, until)
        elif not isinstance(made, NodeExistsError):
            value(made)
    return batch


def _is_current(before: Any, entry: Entry, listing: Listing) -> bool:
    """Whether no ticket can have held alone between the look at the container and our creation."""
    first = listing.nodes[0]
    created = (before.cversion + before.numChildren) // 2  # which is the next sequence number
    if first == entry.node:  # the queue was empty, and no other ticket has come before this one
        return bool(before.numChildren == 0 and (created - sequence(first)) % 2**31 == 0)
    return bool(0 < (created - sequence(first)) % 2**31 < 2**30)  # it was there, and holds


async def find(queues: Queues, ticket: Ticket, until: float) -> Entry | None:
    """Look for a ticket that may be in its queue although no answer said so."""
    parent, name = queues.path_of(ticket.name), digest(ticket)
    while True:
        _, children = await queues.ask(until, requests.sync(parent), requests.children(parent))
        if gone(children):
            return None
        nodes = Listing.of(value(children)).nodes
        found = next((node for node in nodes if node.rpartition(".")[0].endswith(name)), None)
        if found is None:
            return None
        batch = await queues.transport.exchange([requests.exists(f"{parent}/{found}")], until)
        stat = value(batch.replies[0])
        if stat is None:
            continue
        if stat.ephemeralOwner == batch.session:
            entry = Entry(parent, found, stat.czxid, batch.session)
            entry.renewed_data(ticket, queues.io.now())
            return entry
        await queues.ask(until, requests.delete(f"{parent}/{found}"))  # its session is over
