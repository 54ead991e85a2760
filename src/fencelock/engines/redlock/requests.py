"""What is asked of a node, in the words of its scripts."""

from __future__ import annotations

import time
from collections.abc import Iterable

from fencelock.core.ticket import Departure, Ticket
from fencelock.engines.redlock.asking import Request
from fencelock.engines.redlock.lines import Lines
from fencelock.engines.redlock.scripts import GRANT, RAISE, RELEASE, RENEW, keys_of
from fencelock.engines.resp.packing import bulk, bulks

_NEVER = bulks("")


def hint() -> int:
    """This machine's clock in µs. With it most fences are agreed upon in the first phase."""
    return time.time_ns() // 1000


def grants(
    lines: Lines, ticket: Ticket, fence: int, channels: list[str], waited: float | None
) -> list[Request]:
    """Take the lock, under this fence or a higher one; where a channel is given, wait for it there.

    `waited`: None if it asks for the first time.
    """
    before = bulks(ticket.id, _ms(ticket.ttl), str(fence), ticket.owner.pack())
    after = _NEVER if waited is None else bulks(_ms(waited))
    return _to_all(lines, GRANT.begin(keys_of(ticket.name), 7), before, channels, after)


def raising(lines: Lines, node: int, ticket: Ticket, fence: int) -> Request:
    """Lift the fence of one that has the lock there."""
    command = RAISE.call(keys_of(ticket.name), lines.runs[node], ticket.id, str(fence))
    return Request.of(node, [command])


def renewals(lines: Lines, holders: Iterable[tuple[Ticket, int]]) -> list[Request]:
    """Extend the time of many tickets, each with its fence."""
    facts = [(keys_of(one.name), one.id, _ms(one.ttl), str(fence)) for one, fence in holders]
    return [
        Request.of(node, [RENEW.call(keys, lines.runs[node], *its) for keys, *its in facts])
        for node in lines.up()
    ]


def introduction(lines: Lines, node: int, ticket: Ticket, fence: int) -> bytes:
    """Make a holder known to a node that does not know it: as if its first request had come late."""
    its = (ticket.id, _ms(ticket.ttl), str(fence), ticket.owner.pack(), "", "0")
    return GRANT.call(keys_of(ticket.name), lines.runs[node], *its)


def release(
    run: str, ticket: Ticket, fence: int, departure: Departure, channel: str, waited: str = ""
) -> bytes:
    """Give the lock back at one node; with `waited`, in ms, to come again when woken."""
    its = (ticket.id, str(fence), "012"[departure], channel, ticket.owner.pack(), waited)
    return RELEASE.call(keys_of(ticket.name), run, *its)


def releases(
    lines: Lines,
    ticket: Ticket,
    fence: int,
    departure: Departure,
    channels: list[str],
    waited: float | None = None,
) -> list[Request]:
    """Give it back at all nodes."""
    before = bulks(ticket.id, str(fence), "012"[departure])
    after = bulks(ticket.owner.pack(), "" if waited is None else _ms(waited))
    return _to_all(lines, RELEASE.begin(keys_of(ticket.name), 7), before, channels, after)


def _to_all(
    lines: Lines, begin: bytes, before: bytes, channels: list[str], after: bytes
) -> list[Request]:
    """The same to all nodes, but for the first argument and the channel: so it is packed only once."""
    return [
        Request(
            node, b"".join((begin, bulk(lines.runs[node]), before, bulk(channels[node]), after))
        )
        for node in lines.up()
    ]


def _ms(seconds: float) -> str:
    return str(int(seconds * 1000))
