"""Calls of the scripts, packed for the nodes."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence

from fencelock.core.ticket import Departure, Ticket
from fencelock.engines.redlock.asking import Request
from fencelock.engines.redlock.node_links import NodeLinks
from fencelock.engines.redlock.scripts import (
    FIND,
    GRANT,
    RAISE,
    RELEASE,
    RENEW,
    TAKE_OVER,
    keys_of,
)
from fencelock.engines.resp.packing import bulk, bulks

_NEVER = bulks("")


def hint() -> int:
    """This machine's clock in µs. With it nodes agree on most fences in the first phase."""
    return time.time_ns() // 1000


def grants(
    links: NodeLinks, ticket: Ticket, fence: int, channels: list[str], waited: float | None
) -> list[Request]:
    """Take the lock, under this fence or a higher one. A node that refuses lists the ticket as a waiter on
    the channel given for it.

    `waited`: seconds that it has waited so far, or None if it asks for the first time.
    """
    before = bulks(ticket.id, _ms(ticket.ttl), str(fence), ticket.owner.pack())
    after = _NEVER if waited is None else bulks(_ms(waited))
    return _to_all(links, GRANT.head(keys_of(ticket.name), 7), before, channels, after)


def raising(links: NodeLinks, node: int, ticket: Ticket, fence: int) -> Request:
    """Raise the fence of a ticket that has the lock at a node."""
    command = RAISE.call(keys_of(ticket.name), links.runs[node], ticket.id, str(fence))
    return Request.of(node, [command])


def renewals(links: NodeLinks, holders: Iterable[tuple[Ticket, int]]) -> list[Request]:
    """Renew many tickets, each with its fence."""
    facts = [(keys_of(one.name), one.id, _ms(one.ttl), str(fence)) for one, fence in holders]
    return [
        Request.of(node, [RENEW.call(keys, links.runs[node], *its) for keys, *its in facts])
        for node in links.connected()
    ]


def finds(links: NodeLinks, tickets: Iterable[Ticket]) -> list[Request]:
    """Ask which of these tickets have the lock, or are listed as waiters."""
    facts = [(keys_of(one.name), one.id) for one in tickets]
    return [
        Request.of(node, [FIND.call(keys, links.runs[node], id) for keys, id in facts])
        for node in links.connected()
    ]


def takeovers(
    links: NodeLinks, holders: Iterable[tuple[Ticket, int, Sequence[str]]]
) -> list[Request]:
    """Renew many tickets, each with its fence and the channels on which it waited, under new bids."""
    facts = [
        ((keys_of(one.name)), (one.id, _ms(one.ttl), str(fence), one.owner.pack()), channels)
        for one, fence, channels in holders
    ]
    return [
        Request.of(
            node,
            [TAKE_OVER.call(keys, links.runs[node], *its, at[node]) for keys, its, at in facts],
        )
        for node in links.connected()
    ]


def introduction(links: NodeLinks, node: int, ticket: Ticket, fence: int) -> bytes:
    """Make a holder known to a node that does not know it, as if its first request had come late."""
    its = (ticket.id, _ms(ticket.ttl), str(fence), ticket.owner.pack(), "", "0")
    return GRANT.call(keys_of(ticket.name), links.runs[node], *its)


def release(
    run: str, ticket: Ticket, fence: int, departure: Departure, channel: str, waited: str = ""
) -> bytes:
    """Release at one node. With `waited`, in ms, the ticket stays listed as a waiter."""
    its = (ticket.id, str(fence), "012"[departure], channel, ticket.owner.pack(), waited)
    return RELEASE.call(keys_of(ticket.name), run, *its)


def releases(
    links: NodeLinks,
    ticket: Ticket,
    fence: int,
    departure: Departure,
    channels: list[str],
    waited: float | None = None,
) -> list[Request]:
    """Release at all nodes."""
    before = bulks(ticket.id, str(fence), "012"[departure])
    after = bulks(ticket.owner.pack(), "" if waited is None else _ms(waited))
    return _to_all(links, RELEASE.head(keys_of(ticket.name), 7), before, channels, after)


def _to_all(
    links: NodeLinks, head: bytes, before: bytes, channels: list[str], after: bytes
) -> list[Request]:
    """The same call for all nodes. Only the first argument and the channel are packed for each."""
    return [
        Request(node, b"".join((head, bulk(links.runs[node]), before, bulk(channels[node]), after)))
        for node in links.connected()
    ]


def _ms(seconds: float) -> str:
    return str(int(seconds * 1000))
