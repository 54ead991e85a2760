"""The tickets of one client: joining queues, looking where a ticket stands, and leaving."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from functools import partial

from fencelock.core.ticket import Departure, Place, Standing, Ticket
from fencelock.engines.etcd import looking, removing
from fencelock.engines.etcd.admission import Ahead, Blockers
from fencelock.engines.etcd.cluster import Cluster
from fencelock.engines.etcd.entry import Entry, View
from fencelock.engines.etcd.errors import CallFailed, LeaseGone
from fencelock.engines.etcd.expiry import Expiry
from fencelock.engines.etcd.joining import Join, Present, Refused
from fencelock.engines.etcd.keys import Keys, Labels
from fencelock.engines.etcd.leases import Lease, Leases
from fencelock.engines.etcd.markers import Markers
from fencelock.engines.etcd.messages_pb2 import KeyValue, RangeRequest, TxnRequest, TxnResponse
from fencelock.engines.etcd.values import Marker, Record
from fencelock.engines.etcd.wire import BATCH, created_at, first, txn
from fencelock.io.contract import IO


class Tickets:
    """The tickets of one client, and what it knows of the tickets ahead of them."""

    def __init__(self, cluster: Cluster, io: IO) -> None:
        self.cluster = cluster
        self.io = io
        self.leases = Leases(cluster, io)
        self.markers = Markers(cluster, self.leases)
        self.expiry = Expiry(io)
        self.entries: dict[str, Entry] = {}
        """By the ticket's id, from its first request to join until it leaves."""
        self._labels = Labels()

    # --- joining

    async def enter(self, ticket: Ticket, if_free: bool, until: float) -> Standing:
        entry = self.entries.get(ticket.id)
        if entry is not None and (entry.converted or entry.record.share != ticket.share):
            standing = await self._enter_with_other_share(entry, ticket, until)
            if standing.place is not Place.GONE:
                return standing
            self._give_back(ticket.id, entry)
            entry = None
        if entry is None:
            entry = self.entries[ticket.id] = Entry(ticket, self._labels.take())
        free_at, all_peers = 0, False
        while True:
            sent, view = self.io.now(), entry.view
            ttl = entry.ttl_to_write(ticket, sent)
            lease = await self.leases.covering(ttl, until)
            markers = await self.leases.markers(until)
            record = entry.next_record(ticket, ttl, lease)
            join = Join(entry, view, record, lease, markers, if_free, free_at, all_peers)
            try:
                answer = await self._send_join(entry, join.request(), until)
            except LeaseGone:
                self.leases.forget(lease, markers)
                continue
            revision = answer.header.revision
            outcome = join.read(answer)
            if isinstance(outcome, Refused):
                blockers = outcome.seen.blockers
                if blockers is None:
                    all_peers = True
                    continue
                if not blockers.ahead:
                    free_at = revision  # if no ticket has come since, this one may join
                    continue
                standing = self._refused(entry, blockers.ahead, revision)
            elif isinstance(outcome, Present) and outcome.fence != view.fence:
                # An earlier request, whose reply was lost, has arrived. Look again with its fence.
                entry.learn(View(outcome.fence, revision))
                continue
            else:
                entry.written(record, lease, sent + ticket.ttl)
                if isinstance(outcome, Present):
                    seen = looking.read_renewal(entry, view, outcome.renewal)
                elif outcome.marked:
                    entry.learn(View(revision, revision, admitted=True, abandoned=False))
                    return Standing(Place.ADMITTED, revision)
                else:
                    seen, entry.short = outcome.seen, False
                standing = await self.take_in(entry, seen, revision, until)
            if standing.recheck <= 0 and await self._remove_expired(entry, until):
                continue
            if standing.place is Place.REFUSED:
                self._give_back(ticket.id, entry)
            return standing

    async def _send_join(self, entry: Entry, request: TxnRequest, until: float) -> TxnResponse:
        """Send a request that puts the ticket into the queue, perhaps later than we wait for its answer."""
        entry.unanswered += 1
        try:
            answer = await self.cluster.txn(request, until)
        except CallFailed as error:
            entry.unanswered -= error.outcome == "not applied"
            raise
        entry.unanswered -= 1
        return answer

    def _refused(self, entry: Entry, ahead: tuple[Ahead, ...], revision: int) -> Standing:
        """Keep in mind which tickets are in the way of one that did not join."""
        self.expiry.reached(revision)
        entry.view = View(ahead=ahead)
        recheck = min(self.left(one, passing=True) for one in ahead)
        return Standing(Place.REFUSED, recheck=recheck)

    async def _enter_with_other_share(self, entry: Entry, ticket: Ticket, until: float) -> Standing:
        """Renew a ticket whose share is not the one asked for. GONE if it would have to join anew.

        A ticket that holds alone goes over to a group. Any other stays as it is.
        """
        while True:
            if not entry.view.fence and not await self._locate(entry, until):
                return Standing(Place.GONE)
            sent, view = self.io.now(), entry.view
            ttl = entry.ttl_to_write(ticket, sent)
            lease = await self.leases.covering(ttl, until)
            markers = await self.leases.markers(until)
            record = entry.next_record(ticket, ttl, lease)
            try:
                request = txn(then=[looking.renew(entry, view, record, lease)])
                answer = await self.cluster.txn(request, until)
                renewal = answer.responses[0].response_txn
                if not renewal.succeeded:
                    return Standing(Place.GONE)
                seen = looking.read_renewal(entry, view, renewal.responses)
                entry.written(record, lease, sent + ticket.ttl)
                standing = await self.take_in(entry, seen, answer.header.revision, until)
                if standing.place is Place.ADMITTED and not entry.shares:
                    record = entry.sharing_record(ticket.share)
                    request = _convert(entry, record, lease, markers)
                    if not (await self.cluster.txn(request, until)).succeeded:
                        return Standing(Place.GONE)
                    entry.written(record, lease, sent + ticket.ttl)
                    entry.converted = True
            except LeaseGone:
                self.leases.forget(lease, markers)
                continue
            if standing.recheck <= 0 and await self._remove_expired(entry, until):
                continue
            return standing

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
        """Whether nothing has happened to a ticket and the tickets ahead. Costs less than to look."""
        request = looking.unchanged(entry, view)
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
            return self._waiting(entry, blockers, fence, revision)
        if not seen.asked or (view.fence == fence and view.admitted):
            return Standing(Place.ADMITTED, fence, bool(view.abandoned))
        abandoned = await self.markers.is_abandoned(entry, fence, seen.marker, until)
        if abandoned is None:
            return await self.look(entry, until) or Standing(Place.GONE)
        self._forget(view.ahead)
        entry.learn(View(fence, revision, admitted=True, abandoned=abandoned))
        return Standing(Place.ADMITTED, fence, abandoned)

    def _waiting(self, entry: Entry, blockers: Blockers, fence: int, revision: int) -> Standing:
        self.expiry.reached(revision)
        still_ahead = {one.fence for one in blockers.ahead}
        self._forget(one for one in entry.view.ahead if one.fence not in still_ahead)
        decisive = blockers.lacking > 0 or not blockers.short
        entry.learn(View(fence, revision, blockers.ahead, blockers.lacking, decisive=decisive))
        recheck = min(self.left(one) for one in blockers.ahead)
        return Standing(Place.WAITING, fence, recheck=recheck)

    async def _signal(self, entry: Entry, until: float) -> None:
        """Let the next ticket of the group know that this one has found room."""
        if entry.lease is None:
            return
        record = entry.signal_record()
        with suppress(CallFailed):  # then the next ticket learns it from its own renewal
            await self.cluster.txn(looking.signal(entry, record, entry.lease), until)
            entry.written(record, entry.lease, entry.promised_until)

    async def _remove_expired(self, entry: Entry, until: float) -> bool:
        """Take out all tickets ahead that have expired. Returns False if that failed."""
        ahead, watched = entry.view.ahead, set(entry.view.ahead)
        try:
            while expired := [
                one for one in ahead if self.left(one, passing=one not in watched) <= 0
            ]:
                expired = expired[:BATCH]
                request = partial(
                    removing.remove_expired, entry.keys, expired, before=entry.view.fence
                )
                answer = await self.markers.write(request, until)
                if not answer.succeeded:
                    break  # one of them was renewed or has gone: look again
                self._forget(expired)
                ahead = looking.tickets(answer.responses[-1])
        except CallFailed:
            return False  # where our own ticket stands is known all the same
        return True

    # --- leaving

    async def leave(self, ticket: Ticket, departure: Departure, until: float) -> bool:
        entry = self.entries.pop(ticket.id, None)
        if entry is None:  # it has left before, or its request to join arrives late
            entry = await self.find(ticket, until)
            return entry is not None and await self._leave(entry, departure, until)
        self._forget(entry.view.ahead)
        left = await self._leave(entry, departure, until)
        self._give_back(ticket.id, entry)
        return left

    async def find(self, ticket: Ticket, until: float) -> Entry | None:
        """Search etcd for a ticket of which this client knows nothing."""
        keys = Keys.of(ticket.name)
        answer = await self.cluster.read(RangeRequest(key=keys.queue, range_end=keys.end), until)
        for kv in answer.kvs:
            if Record.unpack(kv.value).id == ticket.id:
                return Entry.found(ticket, kv, answer.header.revision)
        return None

    async def _leave(self, entry: Entry, departure: Departure, until: float) -> bool:
        while True:
            if not entry.view.fence and not await self._locate(entry, until):
                return False
            if await self._remove(entry, departure, until):
                return True
            if not entry.unanswered:
                return False
            entry.view = View()  # a late request may have put it into the queue anew

    async def _locate(self, entry: Entry, until: float) -> bool:
        """Learn the fence of a ticket that may be in the queue. Returns False if it is not."""
        answer = await self.cluster.read(RangeRequest(key=entry.key), until)
        own = first(answer)
        if own is None:
            return False
        entry.learn(View(own.create_revision, answer.header.revision))
        return True

    async def _remove(self, entry: Entry, departure: Departure, until: float) -> bool:
        """Take out the ticket with the known fence. Returns False if it was not there."""
        view = entry.view
        if entry.shares:
            if not view.admitted:
                return (await self.cluster.txn(removing.withdraw_share(entry), until)).succeeded
            answer = await self.markers.write(partial(removing.release_share, entry), until)
            # It was there in one of two cases: the only ticket, or the nested transaction found it.
            otherwise = answer.responses[0].response_txn if answer.responses else answer
            return answer.succeeded or otherwise.succeeded
        abandoned = departure is Departure.LOST
        withdrawn = departure is Departure.WITHDRAWN
        if not abandoned and (not view.admitted or (withdrawn and view.abandoned is None)):
            answer = await self.cluster.txn(removing.withdraw(entry), until)
            if not answer.succeeded:
                return False
            was_first = answer.responses[0].response_txn
            if not was_first.succeeded:
                return True  # others were ahead of it
            if withdrawn:
                marker = Marker.read(was_first.responses[0].response_range)
                found = await self.markers.meaning(entry.keys, view.fence, marker, until)
                abandoned = found.abandoned
        elif withdrawn:
            abandoned = bool(view.abandoned)
        remove = removing.abandon if abandoned else removing.release
        return (await self.markers.write(partial(remove, entry), until)).succeeded

    def _give_back(self, id: str, entry: Entry) -> None:
        """If every request about this ticket was answered, another ticket may use its label."""
        if not entry.unanswered:
            self.entries.pop(id, None)
            self._labels.give_back(entry.label)

    # --- the time of tickets ahead

    def left(self, ahead: Ahead, *, passing: bool = False) -> float:
        """Seconds until a ticket that was seen just now may be taken out."""
        return self.expiry.left(_id(ahead), ahead.version, ahead.ttl, passing=passing)

    def saw_renewal(self, kv: KeyValue) -> Ahead:
        """A ticket ahead of one that waits here was renewed: its ttl counts anew from now on."""
        ahead = Ahead.read(kv)
        self.left(ahead)
        return ahead

    def _forget(self, ahead: Iterable[Ahead]) -> None:
        for one in ahead:
            self.expiry.forget(_id(one))


def _id(ahead: Ahead) -> str:
    return f"{ahead.key!r}{ahead.fence}"


def _convert(entry: Entry, record: Record, lease: Lease, markers: Lease) -> TxnRequest:
    """Let a ticket that holds alone share from now on. What it found is what it leaves behind."""
    marker = removing.mark_for_sharers(entry.keys, bool(entry.view.abandoned), markers)
    mine = created_at(entry.key, entry.view.fence)
    return txn([mine], [looking.write(entry, record, lease), marker])
