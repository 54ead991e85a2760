"""The tickets of one client: what it knows about them, looking where one stands, and when others expire."""

from __future__ import annotations

import math
import threading
from collections import OrderedDict
from collections.abc import Sequence
from contextlib import suppress
from functools import partial

from fencelock.core.change_times import ChangeTimes
from fencelock.core.observed_expiry import ObservedTickets
from fencelock.core.ticket import Place, Standing, Ticket
from fencelock.engines.etcd import looking
from fencelock.engines.etcd.admission import Ahead
from fencelock.engines.etcd.cluster import Cluster
from fencelock.engines.etcd.entry import Entry, View
from fencelock.engines.etcd.errors import CallFailed
from fencelock.engines.etcd.keys import Keys, Labels
from fencelock.engines.etcd.leases import Leases
from fencelock.engines.etcd.markers import Markers, removal
from fencelock.engines.etcd.messages_pb2 import KeyValue
from fencelock.engines.etcd.wire import (
    BATCH,
    changed_at,
    created_at,
    delete,
    first,
    get,
    txn,
    value_is,
)
from fencelock.io.contract import IO

_MAX_SEEN = 4_000
"""How many things this client remembers. Others count from when their revision was reached."""

_MIN_TIDY = 1_000
"""With fewer tickets than this, a client does not look for those that it can forget."""


class Tickets:
    """The tickets of one client, and what it knows of the tickets ahead of them."""

    def __init__(self, cluster: Cluster, io: IO) -> None:
        self.cluster = cluster
        self.io = io
        self.leases = Leases(cluster, io)
        self.markers = Markers(cluster, self.leases)
        self.expiry = Expiry(io)
        self.entries: dict[str, Entry] = {}
        """By the ticket's id, from its first request to join until it leaves, or long after it expired."""
        self._tidy_at = _MIN_TIDY
        self._labels = Labels()

    # --- entries

    def new_entry(self, ticket: Ticket) -> Entry:
        return self._keep(ticket, Entry(ticket, self._labels.take()))

    def give_back(self, id: str, entry: Entry) -> None:
        """If every request about this ticket was answered, another ticket may use its label."""
        if not entry.unanswered:
            self.entries.pop(id, None)
            if entry.label:
                self._labels.give_back(entry.label)

    async def find(self, sought: Sequence[Ticket], until: float) -> list[Entry | None]:
        """Tickets and their fences. If this client does not know them, it searches etcd."""
        entries = [self.entries.get(ticket.id) for ticket in sought]
        unknown = [at for at, one in enumerate(entries) if one is None or not one.view.fence]
        found = await self.search([sought[at] for at in unknown], until)
        for at, entry in zip(unknown, found, strict=True):
            known, entries[at] = entries[at], entry
            if entry is not None:
                if known is not None and known.key == entry.key:
                    entry.label, entry.unanswered = known.label, known.unanswered
                self._keep(sought[at], entry)
        return entries

    async def search(self, sought: Sequence[Ticket], until: float) -> list[Entry | None]:
        """Find tickets in etcd by their ids, whichever clients have entered them: two reads for all."""
        entries: list[Entry | None] = [None] * len(sought)
        for start in range(0, len(sought), BATCH):
            batch = sought[start : start + BATCH]
            pointers, _ = await self._get([_pointer(ticket) for ticket in batch], until)
            there = [(start + at, kv) for at, kv in enumerate(pointers) if kv is not None]
            records, revision = await self._get([kv.value for _, kv in there], until)
            for (at, pointer), kv in zip(there, records, strict=True):
                if kv is not None and kv.create_revision == pointer.create_revision:
                    entries[at] = Entry.found(sought[at], kv, revision, self.io.now())
                else:
                    # It has left meanwhile, and its pointer with it. If the pointer is still the same,
                    # somebody has deleted the ticket by hand.
                    stale = changed_at(pointer.key, pointer.mod_revision)
                    await self.cluster.txn(txn([stale], [delete(pointer.key)]), until)
                    (entries[at],) = await self.search([sought[at]], until)
        return entries

    async def _get(self, keys: list[bytes], until: float) -> tuple[list[KeyValue | None], int]:
        """What is stored under these keys, and the revision at which it was."""
        if not keys:
            return [], 0
        request = txn(then=[get(key) for key in keys])
        answer = await self.cluster.txn(request, until, repeatable=True)
        found = [first(response.response_range) for response in answer.responses]
        return found, answer.header.revision

    def _keep(self, ticket: Ticket, entry: Entry) -> Entry:
        """Remember an entry. Now and then, forget those whose tickets must have expired.

        A ticket may have gone on, or have left, by another client. Its label is not used again then: its key
        may still be there. If its entry is needed after all, it is found by the ticket's id.
        """
        if len(self.entries) >= self._tidy_at:
            now = self.io.now()
            for id, old in list(self.entries.items()):
                if -math.inf < old.promised_until < now - old.record.ttl and old.watcher is None:
                    self.entries.pop(id, None)
            self._tidy_at = max(_MIN_TIDY, 2 * len(self.entries))
        self.entries[ticket.id] = entry
        return entry

    # --- looking where a ticket stands

    async def look(
        self, entry: Entry, until: float, *, all_peers: bool = False, heard: int = 0
    ) -> Standing | None:
        """Where a ticket stands, without renewing it. None: it is not in the queue.

        With `heard`, the answer of one server is enough if that server has reached this revision.
        Without it, a majority confirms the answer.
        """
        view = entry.view
        request = looking.look(entry, view, all_peers=all_peers, local=heard > 0)
        answer = await self.cluster.txn(request, until, repeatable=True)
        # Another server may lag behind. Even the server that told us shows it to readers a moment later.
        if heard and answer.header.revision < max(heard, view.revision):
            return await self.look(entry, until, all_peers=all_peers)
        seen = looking.read_look(entry, view, answer)
        if seen is None:
            return None
        return await self.take_in(entry, seen, answer.header.revision, until)

    async def unchanged(self, entry: Entry, view: View, until: float) -> bool:
        """Whether nothing has happened to a ticket and the tickets ahead. Costs less than to look.

        Returns False also if the tickets ahead are too many to ask.
        """
        if len(view.ahead) > BATCH:
            return False
        same = [changed_at(one.key, one.version) for one in view.ahead]
        request = txn([created_at(entry.key, view.fence), *same])
        answer = await self.cluster.txn(request, until, repeatable=True)
        if answer.succeeded:
            entry.learn(view._replace(revision=answer.header.revision))
        return answer.succeeded

    async def take_in(
        self, entry: Entry, seen: looking.Seen, revision: int, until: float
    ) -> Standing:
        """Take in what was seen of a ticket that is in the queue."""
        # The fence is the one of the question: the ticket may have gone and joined anew since.
        fence, view, blockers = seen.fence, entry.view, seen.blockers
        if blockers is None:
            entry.learn(View(fence, revision))
            return await self.look(entry, until, all_peers=True) or Standing(Place.GONE)
        if entry.short and not blockers.short and seen.asked:
            await self._signal(entry, until)
        entry.short = blockers.short
        if blockers.ahead:
            self.expiry.reached(revision)
            entry.learn(View(fence, revision, blockers))
            return Standing(Place.WAITING, fence, recheck=min(map(self.left, blockers.ahead)))
        if not seen.asked or (view.fence == fence and view.admitted):
            return Standing(Place.ADMITTED, fence, view.abandoned)
        abandoned = await self.markers.is_abandoned(entry, fence, seen.marker, until)
        if abandoned is None:
            return await self.look(entry, until) or Standing(Place.GONE)
        entry.learn(View(fence, revision, admitted=True, abandoned=abandoned))
        return Standing(Place.ADMITTED, fence, abandoned)

    async def _signal(self, entry: Entry, until: float) -> None:
        """Let the next ticket of the group know that this one has found room."""
        change = entry.revised(signals=entry.record.signals + 1)
        if change is None:
            return
        same = [created_at(entry.key, entry.view.fence), value_is(entry.key, change.before.value)]
        with suppress(CallFailed):  # then the next ticket learns it from its own renewal
            request = txn(same, looking.puts(entry, change.after))
            if (await self.cluster.txn(request, until)).succeeded:
                entry.written(change.after, entry.promised_until)

    async def remove_expired(self, entry: Entry, until: float) -> bool:
        """Take out all tickets ahead that have expired. Returns False if that failed."""
        ahead = entry.view.ahead
        try:
            while expired := [one for one in ahead if self.left(one) <= 0][: BATCH // 2]:
                request = partial(removal, entry.keys, expired, before=entry.view.fence)
                answer = await self.markers.write(request, until)
                if not answer.succeeded:
                    break  # one of them was renewed or has gone: look again
                ahead = looking.tickets_in(answer.responses[-1])
        except CallFailed:
            return False  # where our own ticket stands is known all the same
        return True

    # --- the time of tickets ahead

    def left(self, ahead: Ahead) -> float:
        """Seconds until a ticket that was seen just now may be taken out."""
        return self.expiry.left(f"{ahead.key!r}{ahead.fence}", ahead.version, ahead.ttl)

    def saw_renewal(self, kv: KeyValue) -> Ahead:
        """A ticket ahead of one that waits here was renewed: its ttl counts anew from now on."""
        ahead = Ahead.read(kv)
        self.left(ahead)
        return ahead


def _pointer(ticket: Ticket) -> bytes:
    return Keys.of(ticket.name).pointer(ticket.id)


class Expiry:
    """When the tickets of other clients expire. etcd has no clock to ask, so each client counts by itself.

    A ticket's ttl counts from when this client first saw its last change: see `core/observed_expiry.py`. Each
    change has a revision, and each answer and event says which revision the cluster has reached. So a client
    may know that a ticket has not changed since long before the client saw it: see `core/change_times.py`.
    That is why a whole row of dead tickets expires together, though each waiter watches only the ticket ahead
    of it. For any thread.
    """

    def __init__(self, io: IO) -> None:
        self._io = io
        self._mutex = threading.Lock()  # answers and events come in different threads
        self._changes = ChangeTimes()
        self._observed = ObservedTickets()
        self._seen: OrderedDict[str, None] = OrderedDict()

    def reached(self, revision: int) -> None:
        """Take in that the cluster has reached a revision."""
        with self._mutex:
            # If it is lower than one before, this server lags behind, or the cluster was restored.
            self._changes.fell_to(revision)
            self._changes.reached(revision, self._io.now())

    def left(self, id: str, version: int, ttl: float) -> float:
        """Seconds until a thing expires that was seen just now, and last changed at revision `version`."""
        with self._mutex:
            self._seen[id] = None
            self._seen.move_to_end(id)
            if len(self._seen) > _MAX_SEEN:
                self._observed.forget(self._seen.popitem(last=False)[0])
            now = self._io.now()
            since = self._changes.known_since(version, now)
            left = self._observed.left(id, version, ttl, now, since)
        return min(max(left, 0.0), ttl)
