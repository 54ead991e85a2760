"""Entering a queue: the transaction with which a ticket joins, and what follows from its answer.

The transaction has two forms. With `if_free` a ticket joins only if that admits it at once. If the ticket is
in the queue already, both forms renew it and look again.
"""

from __future__ import annotations

from typing import NamedTuple

from fencelock.core.ticket import Place, Standing, Ticket
from fencelock.engines.etcd.admission import Blockers
from fencelock.engines.etcd.entry import Change, Entry, View
from fencelock.engines.etcd.errors import CallFailed, LeaseGone
from fencelock.engines.etcd.leases import Lease
from fencelock.engines.etcd.looking import (
    Seen,
    changed_by_another,
    puts,
    read_renewal,
    read_search,
    renewal,
    search,
)
from fencelock.engines.etcd.markers import mark, mark_for_sharers
from fencelock.engines.etcd.messages_pb2 import TxnRequest, TxnResponse
from fencelock.engines.etcd.renewing import renew
from fencelock.engines.etcd.tickets import Tickets
from fencelock.engines.etcd.values import Marker
from fencelock.engines.etcd.wire import (
    Part,
    created_at,
    first,
    get,
    nested,
    none_after,
    txn,
    value_is,
)


async def enter(tickets: Tickets, ticket: Ticket, if_free: bool, until: float) -> Standing:
    entry = tickets.entries.get(ticket.id)
    while True:
        if entry is not None and not entry.joins_as(ticket.share):
            standing = await _enter_again(tickets, ticket, until)
            if standing.place is not Place.GONE:
                return standing
            tickets.give_back(ticket.id, entry)
            entry = None
        entry = entry or tickets.new_entry(ticket)
        try:
            return await _join(tickets, entry, ticket, if_free, until)
        except _Elsewhere:
            tickets.give_back(ticket.id, entry)
            tickets.entries.pop(ticket.id, None)
            (entry,) = await tickets.find([ticket], until)


class _Elsewhere(Exception):
    """Another client has put the ticket into the queue, under a key of its own."""


async def _join(
    tickets: Tickets, entry: Entry, ticket: Ticket, if_free: bool, until: float
) -> Standing:
    """Put a ticket into the queue, or renew it there."""
    free_at, all_peers = 0, False
    while True:
        sent, view = tickets.io.now(), entry.view
        ttl = entry.ttl_to_write(ticket, sent)
        lease = await tickets.leases.covering(ttl, until)
        markers = await tickets.leases.markers(until)
        change = entry.change(ticket, ttl, lease)
        join = Join(entry, view, change, markers, if_free, free_at, all_peers)
        try:
            answer = await _send(tickets, join, until)
        except LeaseGone:
            tickets.leases.forget(lease, markers)
            continue
        revision = answer.header.revision
        seen = join.read(answer, tickets.io.now())
        if seen is None:
            continue
        if not seen.fence:
            blockers = seen.blockers
            if blockers is None:
                all_peers = True
                continue
            if not blockers.ahead:
                free_at = revision  # if no ticket has come since, this one may join
                continue
            # Keep in mind which tickets are in the way.
            tickets.expiry.reached(revision)
            entry.view = View(blockers=Blockers(blockers.ahead))
            standing = Standing(Place.REFUSED, recheck=min(map(tickets.left, blockers.ahead)))
        else:
            entry.written(change.after, sent + ticket.ttl)
            entry.short = (
                entry.short and seen.fence == view.fence
            )  # a ticket that joins anew is not
            standing = await tickets.take_in(entry, seen, revision, until)
        if standing.recheck <= 0 and await tickets.remove_expired(entry, until):
            continue
        if standing.place is Place.REFUSED:
            tickets.give_back(ticket.id, entry)
        return standing


async def _send(tickets: Tickets, join: Join, until: float) -> TxnResponse:
    """Send a request that puts the ticket into the queue, perhaps later than we wait for its answer."""
    join.entry.unanswered += 1
    try:
        answer = await tickets.cluster.txn(join.request(), until)
    except CallFailed as error:
        join.entry.unanswered -= error.outcome == "not applied"
        raise
    join.entry.unanswered -= 1
    return answer


async def _enter_again(tickets: Tickets, ticket: Ticket, until: float) -> Standing:
    """Renew a ticket that another client has put into the queue, or whose share is not the one asked for.

    GONE if it would have to join anew. A ticket that holds alone goes over to a group. Any other keeps its
    share.
    """
    while True:
        sent = tickets.io.now()
        (standing,) = await renew(tickets, [ticket], until)
        if standing is None:
            raise CallFailed("no lease lives long enough", "unknown")
        entry = tickets.entries.get(ticket.id)
        if standing.place is Place.GONE or entry is None:
            return Standing(Place.GONE)
        if standing.place is Place.ADMITTED and not entry.shares and ticket.share.group:
            change = entry.revised(share=ticket.share)
            if change is None:
                continue
            markers = await tickets.leases.markers(until)
            # What the ticket found is what it leaves behind.
            marker = mark_for_sharers(entry.keys, entry.view.abandoned, markers)
            same = [created_at(entry.key, standing.fence), value_is(entry.key, change.before.value)]
            request = txn(same, [*puts(entry, change.after), marker])
            try:
                if not (await tickets.cluster.txn(request, until)).succeeded:
                    continue
            except LeaseGone:
                assert change.after.lease is not None
                tickets.leases.forget(change.after.lease, markers)
                continue
            entry.written(change.after, sent + ticket.ttl)
        if standing.recheck <= 0 and await tickets.remove_expired(entry, until):
            continue
        return standing


# --- the transaction


class Join(NamedTuple):
    """A ticket about to join, and with what."""

    entry: Entry
    view: View
    change: Change
    markers: Lease
    if_free: bool
    free_at: int = 0
    """If not 0: at this revision nothing stood in the way of a ticket that shares."""
    all_peers: bool = False

    def request(self) -> TxnRequest:
        return self._join_if_free() if self.if_free else self._join()

    def read(self, answer: TxnResponse, now: float) -> Seen | None:
        """Where the ticket stands: with fence 0 if it was refused. None: send another request."""
        revision = answer.header.revision
        if not self.if_free:
            if not answer.succeeded:
                return self._read_present(answer, revision, now)
            found = answer.responses[:-2]
            if not self.entry.shares:
                nothing = found[0].response_txn
                if nothing.succeeded:  # the ticket wrote the marker
                    return Seen(revision, marker=Marker("held", 0, 0.0, revision))
                found = nothing.responses
            return read_search(self.entry, revision, found)
        if answer.succeeded:
            return Seen(revision, marker=Marker.read(answer.responses[-1].response_range))
        refused = answer.responses[0].response_txn
        if refused.succeeded:
            return read_search(self.entry, 0, refused.responses)
        return self._read_present(refused, revision, now)

    def _read_present(self, answer: TxnResponse, revision: int, now: float) -> Seen | None:
        """The ticket was in the queue already."""
        entry = self.entry
        pointer, renewed = first(answer.responses[0].response_range), answer.responses[1]
        assert pointer is not None
        if pointer.value != entry.key:
            raise _Elsewhere
        if pointer.create_revision == self.view.fence:
            answers = renewed.response_txn.responses
            if not answers:  # somebody has deleted the ticket by hand
                raise _Elsewhere
            changed = changed_by_another(answers)
            if changed is None:
                return read_renewal(entry, self.view, answers)
            entry.adopt(changed, now)
        else:
            # An earlier request, whose reply was lost, has arrived. The next request renews it by its fence.
            entry.learn(View(pointer.create_revision, revision))
            own = first(renewed.response_range)
            if own is not None:
                entry.adopt(own, now)
        return None

    def _join(self) -> TxnRequest:
        found = search(self.entry)
        if not self.entry.shares:
            # A free lock takes the shortest way, because that is what an acquire costs. If there is a
            # marker, etcd need not go through the whole queue to see that there is something.
            keys = self.entry.keys
            nothing = [
                created_at(keys.marker, 0),
                created_at(keys.everything, 0, keys.everything_end),
            ]
            found = [nested(nothing, [self._mark()], found)]
        return txn([self._is_new()], [*found, *self._puts()], self._present())

    def _join_if_free(self) -> TxnRequest:
        """Join if nothing is in the way, or if no ticket has come since nothing was."""
        keys, share, is_new = self.entry.keys, self.entry.record.share, self._is_new()
        if self.free_at:
            is_free = [none_after(keys.queue, keys.end, self.free_at)]
        elif share.weight:
            is_free = [created_at(keys.queue, 0, keys.end)]
        else:
            is_free = [created_at(part.key, 0, part.end) for part in keys.others(share.group)]
        join = [*self._puts(), get(keys.marker)]
        if not share.group:
            join.insert(0, nested([created_at(keys.marker, 0)], [self._mark()]))
        found = search(self.entry, all_peers=self.all_peers)
        return txn([is_new, *is_free], join, [nested([is_new], found, self._present())])

    # --- parts

    def _is_new(self) -> Part:
        """Whether no client has put the ticket into the queue."""
        return created_at(self.entry.pointer, 0)

    def _puts(self) -> list[Part]:
        return puts(self.entry, self.change.after)

    def _mark(self) -> Part:
        return mark(self.entry.keys, "held", 0, self.markers)

    def _present(self) -> list[Part]:
        """What to do if the ticket is there: find out where, and renew it if its fence is known."""
        where = get(self.entry.pointer)
        if not self.view.fence:
            return [where, get(self.entry.key)]
        mine = created_at(self.entry.key, self.view.fence)
        return [where, nested([mine], renewal(self.entry, self.view, self.change))]
