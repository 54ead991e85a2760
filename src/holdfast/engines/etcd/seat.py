"""What a client knows of a ticket of its own that stands in a queue."""

from __future__ import annotations

import math
from typing import NamedTuple

from holdfast.core.ticket import Ticket
from holdfast.engines.etcd.keys import Card, Keys
from holdfast.engines.etcd.leases import Lease
from holdfast.engines.etcd.messages_pb2 import KeyValue
from holdfast.engines.etcd.watches import Watcher


class Ahead(NamedTuple):
    """The ticket right ahead of another one, as it was last seen."""

    key: bytes
    fence: int
    version: int
    ttl: float

    @classmethod
    def read(cls, kv: KeyValue) -> Ahead:
        return cls(kv.key, kv.create_revision, kv.mod_revision, Card.unpack(kv.value).ttl)


class Seat:
    """One ticket's place in its queue."""

    __slots__ = (
        "abandoned",
        "admitted",
        "ahead",
        "card",
        "fence",
        "key",
        "keys",
        "lease",
        "promised",
        "revision",
        "watcher",
    )

    def __init__(self, ticket: Ticket) -> None:
        self.keys = Keys.of(ticket.name)
        self.key = self.keys.ticket(ticket.id)
        self.card = Card.of(ticket)
        self.fence = 0
        self.revision = 0
        """Of the newest answer that was taken in."""
        self.ahead: Ahead | None = None
        self.admitted = False
        self.abandoned: bool | None = None
        """None: not known yet. It is found out when the ticket is the first."""
        self.lease: Lease | None = None
        self.promised = -math.inf
        """Until when, on our clock, this ticket has been promised to live."""
        self.watcher: Watcher | None = None

    def stated(self, ticket: Ticket, now: float) -> float:
        """The ttl to write down for a request that is sent now.

        A shorter one than before must not take away what was promised.
        """
        return max(ticket.ttl, min(self.promised - now, self.card.ttl))

    def learn(self, fence: int, revision: int, ahead: Ahead | None) -> None:
        """Take in where it stands: behind `ahead`, or first."""
        if revision < self.revision:
            return  # something newer is known already
        if fence != self.fence:
            self.fence, self.admitted, self.abandoned = fence, False, None
        self.revision = revision
        self.ahead = ahead
        self.admitted = ahead is None
