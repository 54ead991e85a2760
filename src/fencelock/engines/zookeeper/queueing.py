"""How a ticket joins a queue, is renewed, and finds out where it stands.

Every answer counts only if it is of the session that created the ticket.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from fencelock.core.ticket import Standing, Ticket
from fencelock.engines.failure import RequestFailed
from fencelock.engines.zookeeper import requests
from fencelock.engines.zookeeper.admission import Listing
from fencelock.engines.zookeeper.batch import Batch, done, existed, gone, missing, rejection, value
from fencelock.engines.zookeeper.entry import Entry
from fencelock.engines.zookeeper.nodes import (
    HolderRecord,
    TicketData,
    digest,
    downgrade_node,
    node_prefix,
    sequence,
)
from fencelock.engines.zookeeper.queues import GONE, Queues
from fencelock.engines.zookeeper.requests import Request


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
        queues.wait_for(entry, blockers)
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
            await queues.make_root(until)
        elif not existed(made):
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


async def renew(
    queues: Queues, pairs: Sequence[tuple[Ticket, Entry]], until: float, *, watch: bool = False
) -> dict[str, Standing]:
    """Renew tickets in one write, and see whether those that wait still have to. By the tickets' ids.

    With `watch`, the tickets that wait are going to park, so their blockers are watched.
    """
    wanted: list[Request] = []
    asked: list[tuple[int, tuple[str, ...]]] = []
    for ticket, entry in pairs:
        # If the blockers are not decisive, only the whole queue shows whether the ticket has to wait.
        nodes = entry.blockers.nodes if entry.blockers.decisive and not entry.holds else ()
        asked.append((len(wanted), nodes))
        wanted.append(requests.touch(entry.path, entry.renewed_data(ticket, queues.io.now())))
        wanted += queues.read_blockers(entry, nodes, watch=watch)
    if not wanted:
        return {}
    batch = await queues.transport.exchange(wanted, until)
    standings: dict[str, Standing] = {}
    for (ticket, entry), (place, nodes) in zip(pairs, asked, strict=True):
        touched, *read = batch.replies[place : place + 1 + len(nodes)]
        seen = dict(zip(nodes, read, strict=True))
        if _is_gone(entry, batch, touched):
            standings[ticket.id] = GONE
        elif entry.holds:
            standings[ticket.id] = entry.standing()
        elif seen and (standing := _still_waiting(queues, entry, seen)) is not None:
            standings[ticket.id] = standing
        else:
            parks = watch or entry.event is not None
            standings[ticket.id] = await read_queue(queues, entry, until, watch=parks)
    return standings


async def take_news(queues: Queues, entry: Entry, until: float) -> Standing:
    """Find out what the news about the blockers is, and watch them further."""
    nodes = tuple(entry.changed.intersection(entry.blockers.nodes))
    if nodes and entry.blockers.decisive and not entry.gone:
        standing, _ = await _read(queues, entry, nodes, until, watch=True)
        if standing is not None:
            return standing
    return await _follow_holder(queues, entry, until) or await read_queue(queues, entry, until)


async def _follow_holder(queues: Queues, entry: Entry, until: float) -> Standing | None:
    """Admit a ticket if the ticket ahead held alone and has departed. None: read the whole queue.

    The holder record says so, however long the queue is. Our own ticket is still there: if it had been taken
    out since, the record would be another one. A waiter is taken out only after its ttl, and then no
    admission counts.
    """
    if entry.share.group or entry.ahead is None:
        return None
    entry.gone = False
    batch = await queues.transport.exchange([requests.get(entry.parent)], until)
    (container,) = batch.replies
    if _is_gone(entry, batch, container):
        return GONE
    record = HolderRecord.unpack(value(container)[0])
    if record.state or record.seq != sequence(entry.ahead):
        return None
    return hold(queues, entry, record.abandoned)


async def read_queue(queues: Queues, entry: Entry, until: float, *, watch: bool = True) -> Standing:
    """Read the whole queue to see where a ticket stands. Takes out tickets ahead that have expired."""
    while True:
        entry.gone = False
        wanted = [requests.children(entry.parent), requests.get(entry.parent)]
        batch = await queues.transport.exchange(wanted, until)
        children, container = batch.replies
        if _is_gone(entry, batch, children) or entry.node not in value(children):
            return GONE
        listing = Listing.of(children)
        entry.share = listing.share(entry.node)
        entry.downgrade = listing.downgrade_of(entry.node)
        blockers = listing.blockers_of(entry.node)
        if entry.blockers.short and not blockers.short and listing.has_peer_behind(entry.node):
            # Change our node, so that the next ticket of the group sees that this one has found room.
            with suppress(RequestFailed):  # then the next ticket learns it when it is renewed
                await queues.ask(until, requests.touch(entry.path, entry.data))
        if not blockers.nodes:
            return await admit(queues, entry, value(container), listing, until)
        queues.wait_for(entry, blockers)
        entry.record_zxid = value(container)[1].mzxid
        standing, seen = await _read(queues, entry, blockers.nodes, until, watch=watch)
        if standing is not None:
            return standing
        taken: set[str] = set()
        for node in reversed(queues.expired(entry)):
            if node not in taken and not gone(seen[node]):
                version = seen[node][1].version
                taken |= await queues.expire(entry.parent, listing, node, version, until)


async def admit(
    queues: Queues, entry: Entry, container: Any, listing: Listing, until: float
) -> Standing:
    """Let a ticket hold, and record what later holders have to know if it vanishes."""
    record, stat = HolderRecord.unpack(container[0]), container[1]
    first = listing.nodes[0]
    if not entry.holds:
        entry.abandoned = entry.finds_abandoned(record, stat, first, queues.io.now())
    new = entry.record_to_write(record, first)
    if new is not None:
        write = requests.touch(entry.parent, new.pack(), stat.version)
        request = requests.transaction(requests.check(entry.path), write)
        (reply,) = await queues.ask(until, request)
        if missing(reply):
            return GONE
        if not done(reply):  # the record has changed meanwhile
            return await read_queue(queues, entry, until)
    return hold(queues, entry, entry.abandoned)


def hold(queues: Queues, entry: Entry, abandoned: bool) -> Standing:
    """The ticket holds, and there is nothing left to record."""
    queues.forget(entry)
    entry.holds, entry.abandoned = True, abandoned
    entry.wake()  # another caller than the one that is parked may have found out
    return entry.standing()


async def downgrade(queues: Queues, entry: Entry, ticket: Ticket, until: float) -> Standing:
    """Let a ticket that holds alone share from now on. It leaves the name as it found it."""
    node = downgrade_node(entry.node, ticket.share)
    record = HolderRecord(sequence(entry.node), entry.abandoned, "shared").pack()
    entry.downgrade = node
    data = entry.renewed_data(ticket, queues.io.now())
    request = requests.transaction(
        requests.touch(entry.path, data),  # to wake the waiters that watch it
        requests.create(entry.path_of(node), b"", queues.acl, requests.EPHEMERAL),
        requests.touch(entry.parent, record),
    )
    batch = await queues.transport.exchange([request], until)
    (reply,) = batch.replies
    if _is_gone(entry, batch) or missing(reply):
        return GONE
    if not done(reply) and not existed(reply, 1):  # else it has shared already
        raise rejection(reply)
    entry.share = ticket.share
    return entry.standing()


async def _read(
    queues: Queues, entry: Entry, nodes: tuple[str, ...], until: float, *, watch: bool
) -> tuple[Standing | None, dict[str, Any]]:
    """Read blockers. The standing is None if the whole queue has to be read."""
    wanted = queues.read_blockers(entry, nodes, watch=watch)
    batch = await queues.transport.exchange(wanted, until)
    if _is_gone(entry, batch):
        return GONE, {}
    seen = dict(zip(nodes, batch.replies, strict=False))
    return _still_waiting(queues, entry, seen), seen


def _still_waiting(queues: Queues, entry: Entry, seen: dict[str, Any]) -> Standing | None:
    """How a ticket stands if its blockers were at most renewed. None: read the whole queue."""
    for node, reply in seen.items():
        if gone(reply):
            return None
        data = queues.saw(entry, node, value(reply))
        if data.downgraded and entry.share.group and node not in entry.blockers.downgraded:
            return None
    return None if queues.expired(entry) else queues.standing(entry)


def _is_gone(entry: Entry, batch: Batch, reply: Any = None) -> bool:
    return batch.session != entry.session or gone(reply)
