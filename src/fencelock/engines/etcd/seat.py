"""What a client knows of a ticket of its own that stands in a queue."""

from __future__ import annotations

import math
from itertools import count
from typing import NamedTuple

from fencelock.core.ticket import Share, Ticket
from fencelock.engines.etcd.admission import Ahead
from fencelock.engines.etcd.ears import Watcher
from fencelock.engines.etcd.keys import Card, Keys
from fencelock.engines.etcd.leases import Lease
from fencelock.engines.etcd.messages_pb2 import KeyValue


class View(NamedTuple):
    """Where a ticket stands, as it was last heard. Replaced as a whole: threads may look at any time."""

    fence: int = 0
    """0: not known, nor whether it is there at all."""
    revision: int = 0
    """When that was so."""
    ahead: tuple[Ahead, ...] = ()
    """Those of whom one has to hear; see `admission.py`."""
    lacking: int = 0
    """How much weight of these has to go before it is worth a look; 0: look when one goes."""
    admitted: bool = False
    abandoned: bool | None = None
    """None: not known yet. It is found out when the ticket is admitted."""
    decisive: bool = False
    """Whether a ticket waits as long as nothing but renewals happens to those ahead."""

    def only_renewed(self, earlier: View) -> bool:
        """Whether nothing else has happened to those ahead since."""
        return [one.fence for one in self.ahead] == [one.fence for one in earlier.ahead] and all(
            map(Ahead.only_renewed, self.ahead, earlier.ahead)
        )


class Seat:
    """One ticket's place in its queue."""

    __slots__ = (
        "_editions",
        "card",
        "key",
        "keys",
        "label",
        "lease",
        "promised",
        "short",
        "turned",
        "unanswered",
        "view",
        "watcher",
    )

    def __init__(self, ticket: Ticket, label: str) -> None:
        self.keys = Keys.of(ticket.name)
        self.label = label
        self.key = self.keys.ticket(label, ticket.share.group)
        self.card = Card.of(ticket)
        self._editions = count(1)
        self.view = View()
        self.lease: Lease | None = None
        self.promised = -math.inf
        """Until when, on our clock, this ticket has been promised to live."""
        self.short = False
        """Whether it was short of permits when it was last looked at."""
        self.turned = False
        """Whether it shares by now, though its key says that it joined to hold alone."""
        self.unanswered = 0
        """Requests to join of which nothing was heard."""
        self.watcher: Watcher | None = None

    @classmethod
    def found(cls, ticket: Ticket, kv: KeyValue, revision: int) -> Seat:
        """One of which nothing was known here."""
        seat = cls(ticket, "")
        seat.key = kv.key
        seat.card = Card.unpack(kv.value)
        seat._editions = count(seat.card.edition + 1)
        seat.learn(View(kv.create_revision, revision))
        return seat

    @property
    def shares(self) -> bool:
        return bool(self.card.share.group)

    def stated(self, ticket: Ticket, now: float) -> float:
        """The ttl to write down for a request that is sent now.

        A shorter one than before must not take away what was promised.
        """
        return max(ticket.ttl, min(self.promised - now, self.card.ttl))

    def due(self, ticket: Ticket, ttl: float, lease: Lease) -> Card:
        """What is to be written on it: the very card that it has if nothing is new."""
        card = self.card
        if self.lease is lease and card.ttl == ttl and card.owner == ticket.owner:
            return card
        return card._replace(edition=next(self._editions), ttl=ttl, owner=ticket.owner)

    def sharing(self, share: Share) -> Card:
        """Its card if it shares from now on."""
        return self.card._replace(edition=next(self._editions), share=share)

    def calling(self) -> Card:
        """Its card with a call to those behind it."""
        return self.card._replace(edition=next(self._editions), calls=self.card.calls + 1)

    def renewed(self, card: Card, lease: Lease, promised: float) -> None:
        """Take in what is written on it now, and until when it has been promised to live."""
        if card.edition >= self.card.edition:
            self.card, self.lease = card, lease
        self.promised = max(self.promised, promised)

    def learn(self, view: View) -> None:
        """Take in where it stands, unless something newer is known already."""
        if view.revision >= self.view.revision:
            self.view = view
