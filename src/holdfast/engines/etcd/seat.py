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


class View(NamedTuple):
    """Where a ticket stands, as it was last heard. Replaced as a whole: threads may look at any time."""

    fence: int = 0
    """0: not known, nor whether it is there at all."""
    revision: int = 0
    """When that was so."""
    ahead: Ahead | None = None
    admitted: bool = False
    abandoned: bool | None = None
    """None: not known yet. It is found out when the ticket is the first."""


class Seat:
    """One ticket's place in its queue."""

    __slots__ = (
        "card",
        "key",
        "keys",
        "label",
        "lease",
        "promised",
        "unanswered",
        "view",
        "watcher",
    )

    def __init__(self, ticket: Ticket, label: str) -> None:
        self.keys = Keys.of(ticket.name)
        self.label = label
        self.key = self.keys.ticket(label)
        self.card = Card.of(ticket)
        self.view = View()
        self.lease: Lease | None = None
        self.promised = -math.inf
        """Until when, on our clock, this ticket has been promised to live."""
        self.unanswered = 0
        """Requests to join of which nothing was heard."""
        self.watcher: Watcher | None = None

    def stated(self, ticket: Ticket, now: float) -> float:
        """The ttl to write down for a request that is sent now.

        A shorter one than before must not take away what was promised.
        """
        return max(ticket.ttl, min(self.promised - now, self.card.ttl))

    def renewed(self, ttl: float, lease: Lease, promised: float) -> None:
        """Take in what is written on it now, and until when it has been promised to live."""
        self.card = self.card._replace(ttl=ttl)
        self.lease = lease
        self.promised = max(self.promised, promised)

    def learn(self, view: View) -> None:
        """Take in where it stands, unless something newer is known already."""
        if view.revision >= self.view.revision:
            self.view = view
