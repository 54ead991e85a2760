"""What is asked most, as bytes.

What is the same from call to call is packed once: packing all of it anew took a third of the engine's time.
"""

from __future__ import annotations

from collections import OrderedDict
from functools import lru_cache

from fencelock.core.ticket import Departure, Owner, Share, Ticket
from fencelock.engines.redis.keys import keys_of, tag_of
from fencelock.engines.redis.scripts import ENTER, LEAVE, RENEW
from fencelock.engines.redis.words import us
from fencelock.engines.resp.packing import bulks
from fencelock.engines.resp.script import floor_of

_NOBODY = bulks("fencelock:nobody")
"""A channel to which nobody listens."""

_MOST = 2048
"""Names of which the forms are kept."""

_DEPARTURES = {departure: bulks("012"[departure]) for departure in Departure}


class _Form:
    """What the requests about a name have in common: of those who join, what stands before and after the
    id and the channel; of those who leave, what stands before the id."""

    __slots__ = ("begin", "end", "floor", "if_free", "leave", "owner", "share", "ttl")

    def __init__(
        self, name: str, ttl: float, owner: Owner, share: Share, floor: int, if_free: bool
    ) -> None:
        self.ttl, self.owner, self.share, self.floor, self.if_free = (
            ttl,
            owner,
            share,
            floor,
            if_free,
        )
        count, self.end = _terms(ttl, owner, share, floor_of(name, floor), if_free)
        keys = keys_of(tag_of(name))
        self.begin = ENTER.begin(keys, 2 + count)
        self.leave = LEAVE.begin(keys, 2)


_forms: OrderedDict[str, _Form] = OrderedDict()
"""By name, as it was last asked for; to look one up is quicker than any cache that compares all of it."""


def enter(ticket: Ticket, channel: bytes, *, if_free: bool) -> bytes:
    """Join the queue; wake-ups go to this channel."""
    name, id, ttl, owner, share, floor = ticket
    form = _forms.get(name)
    if (
        form is None
        or (form.owner is not owner and form.owner != owner)
        or (form.share is not share and form.share != share)
        or form.ttl != ttl
        or form.floor != floor
        or form.if_free is not if_free
    ):
        form = _remember(name, _Form(name, ttl, owner, share, floor, if_free))
    packed = id.encode()
    return b"".join((form.begin, b"$%d\r\n" % len(packed), packed, b"\r\n", channel, form.end))


def attempt(ticket: Ticket) -> bytes:
    """The same for one that is not going to wait, so that nobody will ever call it."""
    return enter(ticket, _NOBODY, if_free=True)


def renew(ticket: Ticket) -> bytes:
    """Extend a ticket's time. There may be a hundred thousand names, each asked for once in a while: of
    these nothing is kept."""
    return RENEW.call(keys_of(tag_of(ticket.name)), ticket.id, us(ticket.ttl))


def leave(ticket: Ticket, departure: Departure) -> bytes:
    """Take a ticket out."""
    form = _forms.get(ticket.name)
    begin = LEAVE.begin(keys_of(tag_of(ticket.name)), 2) if form is None else form.leave
    packed = ticket.id.encode()
    return b"".join((begin, b"$%d\r\n" % len(packed), packed, b"\r\n", _DEPARTURES[departure]))


def _remember(name: str, form: _Form) -> _Form:
    _forms[name] = form
    if len(_forms) > _MOST:
        _forms.popitem(last=False)
    return form


@lru_cache(256)
def _terms(ttl: float, owner: Owner, share: Share, floor: int, if_free: bool) -> tuple[int, bytes]:
    """What locks of one kind say of themselves, and in how many words."""
    words = [us(ttl), owner.pack(), "1" if if_free else "0"]
    if share.group or floor:  # what most don't ask for
        words.append(str(floor))
    if share.group:
        words += [share.group, str(share.weight), str(share.permits)]
    return len(words), bulks(*words)
