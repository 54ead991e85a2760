"""Joining queues, looking where one stands, and leaving them: the engine without its face."""

from __future__ import annotations

import threading
from collections import OrderedDict
from contextlib import suppress

from fencelock.core.observed_expiry import ObservedTickets
from fencelock.core.ticket import Departure, Place, Standing, Ticket
from fencelock.engines.etcd import requests, sharing
from fencelock.engines.etcd.admission import Ahead, Finding
from fencelock.engines.etcd.cluster import Cluster
from fencelock.engines.etcd.keys import Card, Keys, Labels
from fencelock.engines.etcd.leases import Lease, Leases
from fencelock.engines.etcd.messages_pb2 import KeyValue, RangeRequest, TxnRequest, TxnResponse
from fencelock.engines.etcd.revisions import Revisions
from fencelock.engines.etcd.seat import Seat, View
from fencelock.engines.etcd.traces import Trace
from fencelock.engines.etcd.troubles import CallFailed, LeaseGone
from fencelock.engines.etcd.verdicts import Verdicts
from fencelock.engines.etcd.wire import RANGE, TXN, first, txn
from fencelock.io.contract import IO

_GLIMPSED = 1_000
"""Tickets behind which nobody here waits, of which it is remembered when they were seen."""


class Queues:
    """The tickets of one client, and what they have to do with those of others."""

    def __init__(self, cluster: Cluster, io: IO) -> None:
        self.cluster = cluster
        self.io = io
        self.leases = Leases(cluster, io)
        self.verdicts = Verdicts(cluster, self.leases)
        self.seats: dict[str, Seat] = {}
        """By the ticket's id, from its first request to join until it leaves."""
        self.revisions = Revisions()
        self._labels = Labels()
        self._sightings = ObservedTickets()
        self._glimpsed: OrderedDict[str, None] = OrderedDict()
        self._mutex = threading.Lock()

    # --- joining and looking

    async def enter(self, ticket: Ticket, if_free: bool, until: float) -> Standing:
        seat = self.seats.get(ticket.id)
        if seat is not None and (seat.turned or seat.card.share != ticket.share):
            standing = await self._stay(seat, ticket, until)
            if standing.place is not Place.GONE:
                return standing
            self._give_back(ticket.id, seat)
            seat = None
        if seat is None:
            seat = self.seats[ticket.id] = Seat(ticket, self._labels.take())
        free_at, all_peers = 0, False
        while True:
            sent = self.io.now()
            ttl = seat.stated(ticket, sent)
            lease = await self.leases.covering(ttl, until)
            traces = await self.leases.traces(until)
            card = seat.due(ticket, ttl, lease)
            if not seat.shares:
                request = requests.enter(seat, card, lease, traces, if_free=if_free)
            elif if_free:
                request = sharing.enter_if_free(seat, card, lease, free_at, all_peers=all_peers)
            else:
                request = sharing.enter(seat, card, lease)
            try:
                answer = await self._join(seat, request, until)
            except LeaseGone:
                self.leases.forget(lease, traces)
                continue
            revision = answer.header.revision
            joined = _joined(seat, answer, if_free)
            if joined is None:
                own, told = requests.there(seat, answer, if_free=if_free)
                if own.create_revision != seat.view.fence:
                    # An earlier request has arrived, of which we heard nothing: look with its fence.
                    seat.learn(View(own.create_revision, revision))
                    continue
                seen = requests.renewed(seat, seat.view, told)
                seat.renewed(card, lease, sent + ticket.ttl)
                standing = await self.seated(seat, seen, revision, until)
            elif joined.marked:
                seat.renewed(card, lease, sent + ticket.ttl)
                seat.learn(View(revision, revision, admitted=True, abandoned=False))
                standing = Standing(Place.ADMITTED, revision)
            elif joined.there:
                seat.short = False
                seat.renewed(card.uncalled(), lease, sent + ticket.ttl)
                standing = await self.seated(seat, joined.seen, revision, until)
            elif joined.seen.finding is None:
                all_peers = True
                continue
            elif joined.seen.finding.ahead:
                standing = self._refused(seat, joined.seen.finding.ahead, revision)
            else:
                free_at = revision  # nobody was in the way; if nobody has come since, it may join
                continue
            if standing.recheck <= 0 and await self._take_out(seat, until):
                continue
            if standing.place is Place.REFUSED:
                self._give_back(ticket.id, seat)
            return standing

    async def _join(self, seat: Seat, request: TxnRequest, until: float) -> TxnResponse:
        """Send a request that may put the ticket into the queue, now or, if it is late, later."""
        seat.unanswered += 1
        try:
            answer = await self.ask(request, until)
        except CallFailed as error:
            seat.unanswered -= error.outcome == "not applied"
            raise
        seat.unanswered -= 1
        return answer

    def _refused(self, seat: Seat, ahead: tuple[Ahead, ...], revision: int) -> Standing:
        """Note who is in the way of one that did not join."""
        self.revisions.reached(revision, self.io.now())
        seat.view = View(ahead=ahead)
        recheck = min(self.left(one, glimpsed=True) for one in ahead)
        return Standing(Place.REFUSED, recheck=recheck)

    async def _stay(self, seat: Seat, ticket: Ticket, until: float) -> Standing:
        """Renew a ticket that is to share otherwise than it does: GONE if it would have to join anew.

        One that holds alone may go over to a group. Any other stays as it is.
        """
        while True:
            if not seat.view.fence and not await self._locate(seat, until):
                return Standing(Place.GONE)
            sent, view = self.io.now(), seat.view
            ttl = seat.stated(ticket, sent)
            lease = await self.leases.covering(ttl, until)
            card = seat.due(ticket, ttl, lease)
            try:
                request = txn(then=[requests.renew(seat, view, card, lease)])
                answer = await self.ask(request, until)
                told = answer.responses[0].response_txn
                if not told.succeeded:
                    return Standing(Place.GONE)
                seen = requests.renewed(seat, view, told.responses)
                seat.renewed(card, lease, sent + ticket.ttl)
                standing = await self.seated(seat, seen, answer.header.revision, until)
                if standing.place is Place.ADMITTED and not seat.shares:
                    turned = seat.sharing(ticket.share)
                    traces = await self.leases.traces(until)
                    answer = await self.ask(sharing.turn(seat, turned, lease, traces), until)
                    if not answer.succeeded:
                        return Standing(Place.GONE)
                    seat.renewed(turned, lease, sent + ticket.ttl)
                    seat.turned = True
            except LeaseGone:
                self.leases.forget(lease)
                continue
            if standing.recheck <= 0 and await self._take_out(seat, until):
                continue
            return standing

    async def look(
        self, seat: Seat, until: float, *, all_peers: bool = False, heard: int = 0
    ) -> Standing | None:
        """Where a ticket stands, without renewing it; None: it is not there.

        One server is enough if it knows what was `heard` already; 0: all have to agree.
        """
        view = seat.view
        request = requests.look(seat, view, all_peers=all_peers, local=heard > 0)
        answer = await self.ask(request, until, repeatable=True)
        # Another server may lag behind, and even the one that told us lets us read it a moment later.
        if heard and answer.header.revision < max(heard, view.revision):
            return await self.look(seat, until, all_peers=all_peers)
        seen = requests.looked(seat, view, answer)
        if seen is None:
            return None
        return await self.seated(seat, seen, answer.header.revision, until)

    async def unchanged(self, seat: Seat, view: View, until: float) -> bool:
        """Whether nothing has happened to a ticket and those ahead of it: less work than to look."""
        answer = await self.ask(requests.unchanged(seat, view), until, repeatable=True)
        if answer.succeeded:
            seat.learn(view._replace(revision=answer.header.revision))
        return answer.succeeded

    async def seated(
        self, seat: Seat, seen: requests.Seen, revision: int, until: float
    ) -> Standing:
        """Take in where a ticket stands that was there."""
        # By the fence of the question: the ticket may have gone and joined anew since.
        fence, view, finding = seen.fence, seat.view, seen.finding
        if finding is None:
            seat.learn(View(fence, revision))
            return await self.look(seat, until, all_peers=True) or Standing(Place.GONE)
        if seat.short and not finding.short and seen.asked:
            await self._call(seat, until)
        seat.short = finding.short
        if finding.ahead:
            return self._behind(seat, finding, fence, revision)
        if not seen.asked or (view.fence == fence and view.admitted):
            return Standing(Place.ADMITTED, fence, bool(view.abandoned))
        abandoned = await self.verdicts.found(seat, fence, seen.trace, until)
        if abandoned is None:
            return await self.look(seat, until) or Standing(Place.GONE)
        for one in view.ahead:
            self._sightings.forget(_sign(one))
        seat.learn(View(fence, revision, admitted=True, abandoned=abandoned))
        return Standing(Place.ADMITTED, fence, abandoned)

    def _behind(self, seat: Seat, finding: Finding, fence: int, revision: int) -> Standing:
        self.revisions.reached(revision, self.io.now())
        here = {one.fence for one in finding.ahead}
        for one in seat.view.ahead:
            if one.fence not in here:
                self._sightings.forget(_sign(one))
        decisive = finding.lacking > 0 or not finding.short
        seat.learn(View(fence, revision, finding.ahead, finding.lacking, decisive=decisive))
        recheck = min(self.left(one) for one in finding.ahead)
        return Standing(Place.WAITING, fence, recheck=recheck)

    async def _call(self, seat: Seat, until: float) -> None:
        """Let the next of the group know that this one has found room."""
        if seat.lease is None:
            return
        card = seat.calling()
        with suppress(CallFailed):  # then that one learns it when it is renewed
            await self.ask(sharing.call(seat, card, seat.lease), until)
            seat.renewed(card, seat.lease, seat.promised)

    async def _take_out(self, seat: Seat, until: float) -> bool:
        """Take out all those ahead that have expired; False: it could not be done now."""
        ahead, known = seat.view.ahead, set(seat.view.ahead)
        try:
            while expired := [
                one for one in ahead if self.left(one, glimpsed=one not in known) <= 0
            ]:
                expired = expired[: requests.ROW]
                traces = await self.leases.traces(until)
                request = requests.take_out(seat.keys, expired, traces, before=seat.view.fence)
                try:
                    answer = await self.ask(request, until)
                except LeaseGone:
                    self.leases.forget(traces)
                    continue
                if not answer.succeeded:
                    break  # one of them was renewed or has gone: look again
                for one in expired:
                    self._sightings.forget(_sign(one))
                ahead = requests.taken_out(answer)
        except CallFailed:
            return False  # where the own ticket stands is known all the same
        return True

    # --- leaving

    async def leave(self, ticket: Ticket, departure: Departure, until: float) -> bool:
        seat = self.seats.pop(ticket.id, None)
        if seat is None:  # it has left before, or its request to join comes late
            seat = await self.find(ticket, until)
            return seat is not None and await self._leave(seat, departure, until)
        for one in seat.view.ahead:
            self._sightings.forget(_sign(one))
        left = await self._leave(seat, departure, until)
        self._give_back(ticket.id, seat)
        return left

    async def find(self, ticket: Ticket, until: float) -> Seat | None:
        """Look for a ticket of which nothing is known here."""
        keys = Keys.of(ticket.name)
        request = RangeRequest(key=keys.queue, range_end=keys.end)
        answer = await self.cluster.ask(RANGE, request, until, repeatable=True)
        for kv in answer.kvs:
            if Card.unpack(kv.value).id == ticket.id:
                return Seat.found(ticket, kv, answer.header.revision)
        return None

    async def _leave(self, seat: Seat, departure: Departure, until: float) -> bool:
        while True:
            if not seat.view.fence and not await self._locate(seat, until):
                return False
            traces = await self.leases.traces(until)
            try:
                if await self._left_as(seat, departure, traces, until):
                    return True
            except LeaseGone:
                self.leases.forget(traces)
                continue
            if not seat.unanswered:
                return False
            seat.view = View()  # a late request may have put it there anew

    async def _locate(self, seat: Seat, until: float) -> bool:
        """Learn the fence of a ticket that may be there; False: it is not."""
        request = RangeRequest(key=seat.key)
        answer = await self.cluster.ask(RANGE, request, until, repeatable=True)
        own = first(answer)
        if own is None:
            return False
        seat.learn(View(own.create_revision, answer.header.revision))
        return True

    async def _left_as(self, seat: Seat, departure: Departure, traces: Lease, until: float) -> bool:
        """Take out the ticket with this fence; False: it was not there."""
        if seat.shares:
            request = sharing.depart(seat, traces) if seat.view.admitted else sharing.withdraw(seat)
            return _done(await self.ask(request, until))
        if departure is Departure.LOST:
            return (await self.ask(requests.abandon(seat, traces), until)).succeeded
        abandoned = seat.view.abandoned
        if not seat.view.admitted or (departure is Departure.WITHDRAWN and abandoned is None):
            answer = await self.ask(requests.withdraw(seat), until)
            if not answer.succeeded:
                return False
            withdrawn = answer.responses[0].response_txn
            if not withdrawn.succeeded:
                return True  # it was somewhere in the middle
            if departure is Departure.WITHDRAWN:
                trace = Trace.read(first(withdrawn.responses[0].response_range))
                found = await self.verdicts.of(seat.keys, seat.view.fence, trace, until)
                abandoned = found.abandoned
        if departure is Departure.WITHDRAWN and abandoned:
            return (await self.ask(requests.abandon(seat, traces), until)).succeeded
        return (await self.ask(requests.release(seat, traces), until)).succeeded

    def _give_back(self, id: str, seat: Seat) -> None:
        """If every request about this ticket was answered, its label may serve another one."""
        if not seat.unanswered:
            self.seats.pop(id, None)
            self._labels.give(seat.label)

    # --- helpers

    async def ask(
        self, request: TxnRequest, until: float, *, repeatable: bool = False
    ) -> TxnResponse:
        answer: TxnResponse = await self.cluster.ask(TXN, request, until, repeatable=repeatable)
        return answer

    def left(self, ahead: Ahead, *, glimpsed: bool = False) -> float:
        """Seconds until a ticket that was seen just now may be taken out."""
        sign = _sign(ahead)
        if glimpsed:
            with self._mutex:
                self._glimpsed[sign] = None
                self._glimpsed.move_to_end(sign)
                if len(self._glimpsed) > _GLIMPSED:
                    self._sightings.forget(self._glimpsed.popitem(last=False)[0])
        now = self.io.now()
        since = self.revisions.known_since(ahead.version, now)
        left = self._sightings.left(sign, ahead.version, ahead.ttl, now, since)
        return min(max(left, 0.0), ahead.ttl)

    def saw_renewed(self, kv: KeyValue) -> Ahead:
        """A ticket ahead of one that waits here was renewed: from now on its ttl counts anew."""
        ahead = Ahead.read(kv)
        self.left(ahead)
        return ahead


def _joined(seat: Seat, answer: TxnResponse, if_free: bool) -> requests.Joined | None:
    if not seat.shares:
        return requests.joined(seat, answer, if_free=if_free)
    return sharing.joined_if_free(seat, answer) if if_free else sharing.joined(seat, answer)


def _done(answer: TxnResponse) -> bool:
    """Whether a ticket was there and was taken out, in one of two ways."""
    return bool(
        answer.succeeded or (answer.responses and answer.responses[0].response_txn.succeeded)
    )


def _sign(ahead: Ahead) -> str:
    return f"{ahead.key!r}{ahead.fence}"
