"""What a client knows about one of its own tickets."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from fencelock.core.ticket import Share, Ticket
from fencelock.engines.etcd.admission import Ahead, Blockers
from fencelock.engines.etcd.keys import Keys
from fencelock.engines.etcd.leases import Lease
from fencelock.engines.etcd.messages_pb2 import KeyValue
from fencelock.engines.etcd.values import Record
from fencelock.engines.etcd.watches import Watcher


class View(NamedTuple):
    """Where a ticket stands, by the last answer. Replaced as a whole, because other threads read it."""

    fence: int = 0
    """0: not known, and neither is whether the ticket is in the queue."""
    revision: int = 0
    """The revision of the cluster at which this was so."""
    blockers: Blockers = Blockers()
    """The tickets that it waits for."""
    admitted: bool = False
    abandoned: bool = False
    """Whether it found the name abandoned. The client finds out when the ticket is admitted."""

    @property
    def ahead(self) -> tuple[Ahead, ...]:
        return self.blockers.ahead

    def only_renewed(self, earlier: View) -> bool:
        """Whether the tickets ahead are the same as earlier, and at most renewed."""
        return [one.fence for one in self.ahead] == [one.fence for one in earlier.ahead] and all(
            map(Ahead.only_renewed, self.ahead, earlier.ahead)
        )


class Stored(NamedTuple):
    """A ticket's record, and where it lives. Replaced as a whole, because other threads read it."""

    record: Record
    value: bytes
    """The record as it is stored in etcd, byte by byte."""
    lease: Lease | None
    """The lease of this client on which the ticket lives. None: it may live on another client's lease."""


class Change(NamedTuple):
    """What to store for a ticket. It is stored only over what the client knows to be there: another client
    may have changed the record, and a request may arrive late."""

    before: Stored
    after: Stored
    """The same as `before` if there is nothing new to store."""


class Entry:
    """Client-side state of one ticket, from its first request to join until it leaves."""

    def __init__(self, ticket: Ticket, label: str = "") -> None:
        self.keys = Keys.of(ticket.name)
        self.label = label
        """Empty: another client has put the ticket into the queue."""
        self.key = self.keys.ticket(label, ticket.share.group)
        self.pointer = self.keys.pointer(ticket.id)
        self.stored = Stored(Record.of(ticket), b"", None)
        """What is stored for it, as far as this client knows. Without a value: nothing so far."""
        self.view = View()
        self.promised_until = -math.inf
        """Until this moment of our clock the ticket has been promised to live."""
        self.short = False
        """Whether it was short of permits at the last look."""
        self.unanswered = 0
        """Requests to join that got no answer."""
        self.watcher: Watcher | None = None

    @classmethod
    def found(cls, ticket: Ticket, kv: KeyValue, revision: int, now: float) -> Entry:
        """The entry for a ticket that was found in etcd."""
        entry = cls(ticket)
        entry.key = kv.key
        entry.adopt(kv, now)
        entry.learn(View(kv.create_revision, revision))
        return entry

    @property
    def record(self) -> Record:
        return self.stored.record

    @property
    def shares(self) -> bool:
        return bool(self.record.share.group)

    def joins_as(self, share: Share) -> bool:
        """Whether it has this share, and also had it when this client put it into the queue."""
        own = self.label and self.key == self.keys.ticket(self.label, share.group)
        return bool(own) and self.record.share == share

    def ttl_to_write(self, ticket: Ticket, now: float) -> float:
        """The ttl for a request that is sent now. A shorter ttl takes nothing away that was promised."""
        return max(ticket.ttl, min(self.promised_until - now, self.record.ttl))

    def change(self, ticket: Ticket, ttl: float, lease: Lease) -> Change:
        """What to store to renew the ticket."""
        before = self.stored
        record = before.record
        if before.lease is lease and record.ttl == ttl and record.owner == ticket.owner:
            return Change(before, before)
        return _revised(before, lease, ttl=ttl, owner=ticket.owner)

    def revised(self, **changes: Any) -> Change | None:
        """What to store to change this in its record. None if it may live on another client's lease."""
        before = self.stored
        return None if before.lease is None else _revised(before, before.lease, **changes)

    def written(self, stored: Stored, promised_until: float) -> None:
        """Take in that this record is stored, and how long the ticket has been promised to live."""
        if stored.record.edition >= self.record.edition:
            self.stored = stored
        self.promised_until = max(self.promised_until, promised_until)

    def adopt(self, kv: KeyValue, now: float) -> None:
        """Take in what is stored for it. Another client may have written that, and promised a whole ttl."""
        record = Record.unpack(kv.value)
        self.stored = Stored(record, kv.value, None)
        self.promised_until = max(self.promised_until, now + record.ttl)

    def learn(self, view: View) -> None:
        """Take in where the ticket stands, unless something newer is known already."""
        if view.revision >= self.view.revision:
            self.view = view


def _revised(before: Stored, lease: Lease, **changes: Any) -> Change:
    record = before.record._replace(edition=before.record.edition + 1, **changes)
    return Change(before, Stored(record, record.pack(), lease))
