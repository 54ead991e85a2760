"""What is stored under a ticket's key (a record) and under a name's marker key (a marker)."""

from __future__ import annotations

import time
from typing import NamedTuple
from urllib.parse import quote, unquote

from fencelock.core.ticket import ALONE, Owner, Share, Ticket
from fencelock.engines.etcd.messages_pb2 import KeyValue, RangeResponse
from fencelock.engines.etcd.wire import first


class Record(NamedTuple):
    """What is stored for a ticket: read by the waiter behind it, and shown to people."""

    edition: int
    """Grows with each record that is written for this ticket, so that no two of them are the same."""
    ttl: float
    joined: float
    """When it joined, by its client's wall clock: only shown, never used to decide anything."""
    id: str
    owner: Owner
    share: Share = ALONE
    signals: int = 0
    """How often the ticket stopped being short of permits. Each time, the next ticket of the group looks."""

    @classmethod
    def of(cls, ticket: Ticket) -> Record:
        return cls(0, ticket.ttl, time.time(), ticket.id, ticket.owner, ticket.share)

    def pack(self) -> bytes:
        share = self.share
        packed = (
            f"{share.weight}/{share.permits}/{self.signals}/{quote(share.group)}"
            if share.group
            else "-"
        )
        text = f"{self.ttl!r} {self.joined:.3f} {self.id} {packed} {self.owner.pack()}"
        return f"{self.edition:08x} {text}".encode()

    @classmethod
    def unpack(cls, value: bytes) -> Record:
        text = value.decode(errors="replace")
        edition, ttl, joined, id, packed, owner = text.split(" ", 5)
        share, signals = ALONE, 0
        if packed != "-":
            weight, permits, sent, group = packed.split("/", 3)
            share, signals = Share(unquote(group), int(weight), int(permits)), int(sent)
        return cls(
            int(edition, 16), float(ttl), float(joined), id, Owner.unpack(owner), share, signals
        )


class Marker(NamedTuple):
    """What the marker of a name says; see `markers.py`."""

    state: str
    fence: int
    """The fence of the ticket that holds, released or was removed. 0: of the ticket that wrote it to join."""
    at: float
    """When it was written, by the writer's wall clock: only shown."""
    revision: int

    @classmethod
    def read(cls, answer: RangeResponse) -> Marker | None:
        kv: KeyValue | None = first(answer)
        if kv is None:
            return None
        state, fence, at = kv.value.decode(errors="replace").split(" ")
        return cls(state, int(fence), float(at), kv.mod_revision)
