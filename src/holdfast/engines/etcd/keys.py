"""How names and tickets become keys and values, and back.

- `holdfast/q/NAME/ID`: a ticket. All of a name's, in order of creation, are its queue.
- `holdfast/h/NAME`: the trace that a holder leaves unless it releases; see `traces.py`.
"""

from __future__ import annotations

import time
from typing import NamedTuple

from holdfast.core.ticket import Owner, Ticket

QUEUES = b"holdfast/q/"
QUEUES_END = b"holdfast/q0"
"""What comes right after all queues: `0` follows `/`."""

_TRACES = b"holdfast/h/"


def _escaped(text: str) -> bytes:
    """Without slashes, so that no name's keys are among those of another."""
    if "/" in text or "%" in text:
        text = text.replace("%", "%25").replace("/", "%2F")
    return text.encode()


class Keys(NamedTuple):
    """The keys of one name."""

    queue: bytes
    end: bytes
    """The queue is all keys from `queue` up to here."""
    trace: bytes

    @classmethod
    def of(cls, name: str) -> Keys:
        tag = _escaped(name)
        return cls(QUEUES + tag + b"/", QUEUES + tag + b"0", _TRACES + tag)

    def ticket(self, id: str) -> bytes:
        return self.queue + _escaped(id)


def name_of(ticket_key: bytes) -> str:
    """The name in whose queue a ticket stands."""
    tag = ticket_key.removeprefix(QUEUES).partition(b"/")[0].decode(errors="replace")
    return tag.replace("%2F", "/").replace("%25", "%")


class Card(NamedTuple):
    """What is written on a ticket: for whoever stands behind it, and for people."""

    ttl: float
    joined: float
    """By the wall clock of whoever joined: to be shown, never to decide anything."""
    owner: Owner

    @classmethod
    def of(cls, ticket: Ticket) -> Card:
        return cls(ticket.ttl, time.time(), ticket.owner)

    def pack(self) -> bytes:
        return f"{self.ttl!r} {self.joined:.3f} {self.owner.pack()}".encode()

    @classmethod
    def unpack(cls, value: bytes) -> Card:
        ttl, joined, owner = value.decode(errors="replace").split(" ", 2)
        return cls(float(ttl), float(joined), Owner.unpack(owner))
