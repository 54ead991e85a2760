"""How names and tickets become keys and values, and back.

- `holdfast/q/NAME/.LABEL`: a ticket. All of a name's, in order of creation, are its queue. The id is in
  the value. The label belongs to the client, which uses it again for its next tickets: etcd remembers
  every key that ever was until it is compacted, and goes through them all when it looks at a range.
- `holdfast/q/NAME/!`: the trace that a holder leaves unless it releases; see `traces.py`. In one range with
  the tickets, so that a single condition says that there is nothing at all.
"""

from __future__ import annotations

import os
import time
from itertools import count
from typing import NamedTuple

from holdfast.core.ticket import Owner, Ticket

QUEUES = b"holdfast/q/"
QUEUES_END = b"holdfast/q0"
"""What comes right after all queues: `0` follows `/`."""

_TRACE = b"!"


def _escaped(text: str) -> bytes:
    """Without slashes, so that no name's keys are among those of another."""
    if "/" in text or "%" in text:
        text = text.replace("%", "%25").replace("/", "%2F")
    return text.encode()


class Keys(NamedTuple):
    """The keys of one name."""

    queue: bytes
    end: bytes
    """The tickets are all keys from `queue` up to here."""
    trace: bytes
    everything: bytes
    everything_end: bytes

    @classmethod
    def of(cls, name: str) -> Keys:
        tag = QUEUES + _escaped(name)
        base = tag + b"/"
        return cls(base + b".", base + b"/", base + _TRACE, base, tag + b"0")

    def ticket(self, label: str) -> bytes:
        return self.queue + label.encode()


def name_of(key: bytes) -> str | None:
    """The name in whose queue a ticket stands; None: this is not a ticket."""
    tag_bytes, _, rest = key.removeprefix(QUEUES).partition(b"/")
    if rest == _TRACE:
        return None
    tag = tag_bytes.decode(errors="replace")
    return tag.replace("%2F", "/").replace("%25", "%")


class Labels:
    """The labels of one client: as many as it ever had tickets at the same time."""

    def __init__(self) -> None:
        self._client = os.urandom(6).hex()
        self._numbers = count()
        self._free: list[str] = []

    def take(self) -> str:
        try:
            return self._free.pop()  # the last one given back: so a lock sees few of them
        except IndexError:
            return f"{self._client}.{next(self._numbers)}"

    def give(self, label: str) -> None:
        """Only if no request about it is under way any more: it could hit the next ticket."""
        self._free.append(label)


class Card(NamedTuple):
    """What is written on a ticket: for whoever stands behind it, and for people."""

    ttl: float
    joined: float
    """By the wall clock of whoever joined: to be shown, never to decide anything."""
    id: str
    owner: Owner

    @classmethod
    def of(cls, ticket: Ticket) -> Card:
        return cls(ticket.ttl, time.time(), ticket.id, ticket.owner)

    def pack(self) -> bytes:
        return f"{self.ttl!r} {self.joined:.3f} {self.id} {self.owner.pack()}".encode()

    @classmethod
    def unpack(cls, value: bytes) -> Card:
        ttl, joined, id, owner = value.decode(errors="replace").split(" ", 3)
        return cls(float(ttl), float(joined), id, Owner.unpack(owner))
