"""What is asked most, as bytes.

What is the same from call to call is packed once: packing all of it anew took a third of the engine's time.
"""

from __future__ import annotations

from functools import lru_cache

from holdfast.core.ticket import Departure, Owner, Share, Ticket
from holdfast.engines.redis.keys import keys_of, tag_of
from holdfast.engines.redis.scripts import ENTER, LEAVE, RENEW
from holdfast.engines.redis.words import us
from holdfast.engines.resp.packing import bulk, bulks
from holdfast.engines.resp.script import Script, floor_of

_NOBODY = "holdfast:nobody"
"""A channel to which nobody listens."""

_DEPARTURES = {departure: bulks("012"[departure]) for departure in Departure}


def enter(ticket: Ticket, channel: str, *, if_free: bool) -> bytes:
    """Join the queue; wake-ups go to this channel."""
    name, id, ttl, owner, share, _ = ticket
    count, terms = _terms(ttl, owner, share, floor_of(ticket), if_free)
    return b"".join((_begin(ENTER, name, 2 + count), _bulk_of(id), bulk(channel), terms))


def attempt(ticket: Ticket) -> bytes:
    """The same for one that is not going to wait, so that nobody will ever call it."""
    return enter(ticket, _NOBODY, if_free=True)


def renew(ticket: Ticket) -> bytes:
    """Extend a ticket's time. There may be a hundred thousand names, each asked for once in a while: of
    these nothing is kept."""
    return RENEW.call(keys_of(tag_of(ticket.name)), ticket.id, us(ticket.ttl))


def leave(ticket: Ticket, departure: Departure) -> bytes:
    """Take a ticket out."""
    return b"".join((_begin(LEAVE, ticket.name, 2), _bulk_of(ticket.id), _DEPARTURES[departure]))


@lru_cache(2048)
def _begin(script: Script, name: str, count: int) -> bytes:
    return script.begin(keys_of(tag_of(name)), count)


@lru_cache(256)
def _terms(ttl: float, owner: Owner, share: Share, floor: int, if_free: bool) -> tuple[int, bytes]:
    """What locks of one kind say of themselves, and in how many words."""
    words = [us(ttl), owner.pack(), "1" if if_free else "0"]
    if share.group or floor:  # what most don't ask for
        words.append(str(floor))
    if share.group:
        words += [share.group, str(share.weight), str(share.permits)]
    return len(words), bulks(*words)


def _bulk_of(id: str) -> bytes:
    packed = id.encode()
    return b"$%d\r\n%b\r\n" % (len(packed), packed)
