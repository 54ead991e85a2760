"""Calls of the scripts as bytes.

The parts that are the same in each call are packed once: packing all of it took a third of the engine's time.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from functools import lru_cache

from fencelock.core.ticket import Departure, Owner, Share, Ticket
from fencelock.engines.redis.keys import keys_and_note_of, keys_of, tag_of
from fencelock.engines.redis.scripts import ENTER, LEAVE, REMEMBER, RENEW
from fencelock.engines.resp.packing import bulks
from fencelock.engines.resp.script import floor_of, packed_keys

_NO_CHANNEL = bulks("fencelock:nobody")
"""A channel to which nobody listens."""

_MAX_TEMPLATES = 2048
"""How many names' templates are kept."""

_DEPARTURES = {departure: bulks("012"[departure]) for departure in Departure}


class _Template:
    """The packed parts of a name's requests: of `enter` what stands before and after the id and the
    channel, of `leave` what stands before the id."""

    __slots__ = ("floor", "head", "if_free", "leave_head", "owner", "share", "tail", "ttl")

    def __init__(
        self, name: str, ttl: float, owner: Owner, share: Share, floor: int, if_free: bool
    ) -> None:
        self.ttl, self.owner, self.share = ttl, owner, share
        self.floor, self.if_free = floor, if_free
        count, self.tail = _tail(ttl, owner, share, floor_of(name, floor), if_free)
        keys = keys_of(tag_of(name))
        packed = packed_keys(keys)
        self.head = ENTER.head_of(packed, len(keys), 2 + count)
        self.leave_head = LEAVE.head_of(packed, len(keys), 2)


_templates: OrderedDict[str, _Template] = OrderedDict()
"""The last one of each name. To compare it is faster than a cache that hashes all arguments."""


def enter(ticket: Ticket, channel: bytes, *, if_free: bool) -> bytes:
    """Join the queue. Wake-ups go to this channel."""
    name, id, ttl, owner, share, floor = ticket
    template = _templates.get(name)
    if (
        template is None
        or (template.owner is not owner and template.owner != owner)
        or (template.share is not share and template.share != share)
        or template.ttl != ttl
        or template.floor != floor
        or template.if_free is not if_free
    ):
        template = _templates[name] = _Template(name, ttl, owner, share, floor, if_free)
        if len(_templates) > _MAX_TEMPLATES:
            _templates.popitem(last=False)
    packed = id.encode()
    return b"".join(
        (template.head, b"$%d\r\n" % len(packed), packed, b"\r\n", channel, template.tail)
    )


def enter_if_free(ticket: Ticket) -> bytes:
    """The same with `if_free`, for a ticket that will not wait: it needs no wake-up."""
    return enter(ticket, _NO_CHANNEL, if_free=True)


def renew(ticket: Ticket) -> bytes:
    """Renew a ticket. A client may hold a hundred thousand names, so nothing is kept for the next call."""
    return RENEW.call(keys_of(tag_of(ticket.name)), ticket.id, _us(ticket.ttl))


def leave(ticket: Ticket, departure: Departure) -> bytes:
    """Take a ticket out."""
    template = _templates.get(ticket.name)
    head = LEAVE.head(keys_of(tag_of(ticket.name)), 2) if template is None else template.leave_head
    packed = ticket.id.encode()
    return b"".join((head, b"$%d\r\n" % len(packed), packed, b"\r\n", _DEPARTURES[departure]))


def remember(ticket: Ticket, text: str, keep: float) -> bytes:
    """Store a note for `keep` seconds, rounded up."""
    keys = keys_and_note_of(tag_of(ticket.name))
    return REMEMBER.call(keys, ticket.id, text, str(math.ceil(keep * 1000)))


@lru_cache(256)
def _tail(ttl: float, owner: Owner, share: Share, floor: int, if_free: bool) -> tuple[int, bytes]:
    """The last arguments of `enter`, which are the same for all locks of one kind, and their number."""
    arguments = [_us(ttl), owner.pack(), "1" if if_free else "0"]
    if share.group or floor:  # most tickets have neither
        arguments.append(str(floor))
    if share.group:
        arguments += [share.group, str(share.weight), str(share.permits)]
    return len(arguments), bulks(*arguments)


def _us(seconds: float) -> str:
    return str(int(seconds * 1_000_000))
