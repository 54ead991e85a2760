"""What a client knows about one of its own tickets."""

from __future__ import annotations

import math
from itertools import count
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


class Entry:
    """Client-side state of one ticket, from its first request to join until it leaves."""

    def __init__(self, ticket: Ticket, label: str) -> None:
        self.keys = Keys.of(ticket.name)
        self.label = label
        self.key = self.keys.ticket(label, ticket.share.group)
        self.record = Record.of(ticket)
        """The last record that was written for it, or the first one to write."""
        self._editions = count(1)
        self.view = View()
        self.lease: Lease | None = None
        """The lease on which it lives."""
        self.promised_until = -math.inf
        """Until this moment of our clock the ticket has been promised to live."""
        self.short = False
        """Whether it was short of permits at the last look."""
        self.unanswered = 0
        """Requests to join that got no answer."""
        self.watcher: Watcher | None = None

    @classmethod
    def found(cls, ticket: Ticket, kv: KeyValue, revision: int) -> Entry:
        """The entry for a ticket that was found in etcd and that this client does not know yet."""
        entry = cls(ticket, "")
        entry.key = kv.key
        entry.record = Record.unpack(kv.value)
        entry._editions = count(entry.record.edition + 1)
        entry.learn(View(kv.create_revision, revision))
        return entry

    @property
    def shares(self) -> bool:
        return bool(self.record.share.group)

    def joins_as(self, share: Share) -> bool:
        """Whether it has this share, and also had it when it joined, as its key says."""
        return self.record.share == share and self.key == self.keys.ticket(self.label, share.group)

    def ttl_to_write(self, ticket: Ticket, now: float) -> float:
        """The ttl for a request that is sent now. A shorter ttl takes nothing away that was promised."""
        return max(ticket.ttl, min(self.promised_until - now, self.record.ttl))

    def next_record(self, ticket: Ticket, ttl: float, lease: Lease) -> Record:
        """The record to write. If nothing is new, the very one that is there."""
        record = self.record
        if self.lease is lease and record.ttl == ttl and record.owner == ticket.owner:
            return record
        return self.revised(ttl=ttl, owner=ticket.owner)

    def revised(self, **changes: Any) -> Record:
        """The next record to write, with these changes."""
        return self.record._replace(edition=next(self._editions), **changes)

    def written(self, record: Record, lease: Lease, promised_until: float) -> None:
        """Take in that this record is stored, and how long the ticket has been promised to live."""
        if record.edition >= self.record.edition:
            self.record, self.lease = record, lease
        self.promised_until = max(self.promised_until, promised_until)

    def learn(self, view: View) -> None:
        """Take in where the ticket stands, unless something newer is known already."""
        if view.revision >= self.view.revision:
            self.view = view
