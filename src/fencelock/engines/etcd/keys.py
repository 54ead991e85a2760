"""How names and tickets become keys and values, and back.

- `fencelock/q/NAME/.LABEL`: a ticket. All of a name's, in order of creation, are its queue. The id is in
  the value. The label belongs to the client, which uses it again for its next tickets: etcd remembers
  every key that ever was until it is compacted, and goes through them all when it looks at a range.
- `fencelock/q/NAME/.~GROUP~LABEL`: a ticket that joined to share, so that one can ask for those of a group,
  and for all others. One that held alone and shares by now keeps its key, and is the oldest of all.
- `fencelock/q/NAME/!`: the trace that a holder leaves unless it releases; see `traces.py`. In one range with
  the tickets, so that a single condition says that there is nothing at all.
- `fencelock/n/NAME`: what was noted down; see `notes.py`. Not among the queues: it does not make a name used.
"""

from __future__ import annotations

import os
import time
from itertools import count
from typing import NamedTuple
from urllib.parse import quote, unquote

from fencelock.core.ticket import ALONE, Owner, Share, Ticket

QUEUES = b"fencelock/q/"
QUEUES_END = b"fencelock/q0"
"""What comes right after all queues: `0` follows `/`."""

_NOTES = b"fencelock/n/"
_TRACE = b"!"


def _escaped(text: str) -> bytes:
    """Without slashes, so that no name's keys are among those of another."""
    if "/" in text or "%" in text:
        text = text.replace("%", "%25").replace("/", "%2F")
    return text.encode()


class Range(NamedTuple):
    """All keys from the first one up to the second, without it."""

    key: bytes
    end: bytes


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

    def ticket(self, label: str, group: str = "") -> bytes:
        return (self.peers(group).key if group else self.queue) + label.encode()

    def peers(self, group: str) -> Range:
        """Those who joined as members of a group."""
        start = self.queue + b"~" + quote(group, safe="").replace("~", "%7E").encode()
        return Range(start + b"~", start + b"\x7f")

    def strangers(self, group: str) -> tuple[Range, Range]:
        """All others: those before and those after the group's keys."""
        peers = self.peers(group)
        return Range(self.queue, peers.key), Range(peers.end, self.end)

    def near(self, ticket: bytes) -> Range:
        """A small part of the queue around a ticket: its client's, and one in sixteen of the others."""
        start = ticket[: len(self.queue) + 1]
        return Range(start, start[:-1] + bytes([start[-1] + 1]))


def note_key(name: str) -> bytes:
    return _NOTES + _escaped(name)


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

    edition: int
    """Of those that its client has written for it, the last one counts: one that comes late does not."""
    ttl: float
    joined: float
    """By the wall clock of whoever joined: to be shown, never to decide anything."""
    id: str
    owner: Owner
    share: Share = ALONE
    calls: int = 0
    """How often it was short of permits and then was not any more: it may be the next one's turn."""

    @classmethod
    def of(cls, ticket: Ticket) -> Card:
        return cls(0, ticket.ttl, time.time(), ticket.id, ticket.owner, ticket.share)

    def uncalled(self) -> Card:
        """The same, for one that joins."""
        return self._replace(calls=0) if self.calls else self

    def pack(self) -> bytes:
        share = _packed(self.share, self.calls) if self.share.group else "-"
        text = f"{self.ttl!r} {self.joined:.3f} {self.id} {share} {self.owner.pack()}"
        return f"#{self.edition:08x} {text}".encode()

    @classmethod
    def unpack(cls, value: bytes) -> Card:
        text = value.decode(errors="replace")
        if not text.startswith("#"):  # by a version that knew nothing of sharing
            ttl, joined, id, owner = text.split(" ", 3)
            return cls(0, float(ttl), float(joined), id, Owner.unpack(owner))
        edition, ttl, joined, id, share, owner = text[1:].split(" ", 5)
        return cls(
            int(edition, 16),
            float(ttl),
            float(joined),
            id,
            Owner.unpack(owner),
            *(() if share == "-" else _unpacked(share)),
        )


def _packed(share: Share, calls: int) -> str:
    return f"{share.weight}/{share.permits}/{calls}/{quote(share.group)}"


def _unpacked(text: str) -> tuple[Share, int]:
    weight, permits, calls, group = text.split("/", 3)
    return Share(unquote(group), int(weight), int(permits)), int(calls)
