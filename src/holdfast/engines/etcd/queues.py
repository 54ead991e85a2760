"""Joining queues, looking where one stands, and leaving them: the engine without its face."""

from __future__ import annotations

import threading
from collections import OrderedDict

from holdfast.core.sightings import Sightings
from holdfast.core.ticket import Departure, Place, Standing, Ticket
from holdfast.engines.etcd import requests
from holdfast.engines.etcd.cluster import Cluster
from holdfast.engines.etcd.keys import Card, Keys, Labels
from holdfast.engines.etcd.leases import Lease, Leases
from holdfast.engines.etcd.messages_pb2 import KeyValue, RangeRequest, TxnRequest, TxnResponse
from holdfast.engines.etcd.seat import Ahead, Seat, View
from holdfast.engines.etcd.traces import Trace
from holdfast.engines.etcd.troubles import Broken, Compacted, LeaseGone
from holdfast.engines.etcd.wire import RANGE, TXN, first
from holdfast.io.contract import IO

_GLIMPSED = 1_000
"""Tickets behind which nobody here waits, of which it is remembered when they were seen."""


class Queues:
    """The tickets of one client, and what they have to do with those of others."""

    def __init__(self, cluster: Cluster, io: IO) -> None:
        self.cluster = cluster
        self.io = io
        self.leases = Leases(cluster, io)
        self.seats: dict[str, Seat] = {}
        """By the ticket's id, from its first request to join until it leaves."""
        self._labels = Labels()
        self._sightings = Sightings()
        self._glimpsed: OrderedDict[str, None] = OrderedDict()
        self._mutex = threading.Lock()

    # --- joining and looking

    async def enter(self, ticket: Ticket, if_free: bool, until: float) -> Standing:
        seat = self.seats.get(ticket.id)
        if seat is None:
            seat = self.seats[ticket.id] = Seat(ticket, self._labels.take())
        while True:
            sent = self.io.now()
            ttl = seat.stated(ticket, sent)
            lease = await self.leases.covering(ttl, until)
            traces = await self.leases.traces(until)
            request = requests.enter(seat, ttl, lease, traces, if_free=if_free)
            try:
                answer = await self._join(seat, request, until)
            except LeaseGone:
                self.leases.forget(lease, traces)
                continue
            revision = answer.header.revision
            joined = requests.joined(seat, answer, if_free=if_free)
            if joined is not None:
                standing = self._joined(seat, joined, revision)
            else:
                own, told = requests.there(answer, if_free=if_free)
                if own.create_revision != seat.view.fence:
                    # An earlier request has arrived, of which we heard nothing: look with its fence.
                    seat.learn(View(own.create_revision, revision))
                    continue
                seen = requests.renewed(own.create_revision, told)
                standing = await self.seated(seat, seen, revision, until)
            if standing.place is not Place.REFUSED:
                seat.renewed(ttl, lease, sent + ticket.ttl)
            if standing.recheck <= 0 and await self._take_out(seat, until):
                continue
            if standing.place is Place.REFUSED and not seat.unanswered:
                self._give_back(ticket.id, seat)
            return standing

    async def _join(self, seat: Seat, request: TxnRequest, until: float) -> TxnResponse:
        """Send a request that may put the ticket into the queue, now or, if it is late, later."""
        seat.unanswered += 1
        try:
            answer = await self.ask(request, until)
        except Broken as error:
            seat.unanswered -= error.outcome == "not applied"
            raise
        seat.unanswered -= 1
        return answer

    def _joined(self, seat: Seat, joined: requests.Joined, revision: int) -> Standing:
        """Take in the answer to one who was not there yet."""
        if joined.ahead is None:
            seat.learn(View(revision, revision, None, True, joined.abandoned))
            return Standing(Place.ADMITTED, revision, joined.abandoned)
        ahead = Ahead.read(joined.ahead)
        if not joined.there:
            seat.view = View(ahead=ahead)
            return Standing(Place.REFUSED, recheck=self.left(ahead, glimpsed=True))
        return self._behind(seat, ahead, revision, revision)

    async def look(self, seat: Seat, until: float) -> Standing | None:
        """Where a ticket stands, without renewing it; None: it is not there."""
        fence = seat.view.fence
        answer = await self.ask(requests.look(seat), until, repeatable=True)
        if not answer.succeeded:
            return None
        seen = requests.looked(fence, answer.responses)
        return await self.seated(seat, seen, answer.header.revision, until)

    async def seated(
        self, seat: Seat, seen: requests.Seen, revision: int, until: float
    ) -> Standing:
        """Take in where a ticket stands that was there."""
        # By the fence of the question: the ticket may have gone and joined anew since.
        fence, view = seen.fence, seat.view
        if seen.ahead is not None:
            return self._behind(seat, seen.ahead, fence, revision)
        if not seen.asked or (view.fence == fence and view.admitted):
            return Standing(Place.ADMITTED, fence, bool(view.abandoned))
        before = view.ahead
        abandoned = await self.abandoned(
            seat.keys, fence, seen.trace, until, before.fence if before else 0
        )
        if before is not None:
            self._sightings.forget(_sign(before))
        seat.learn(View(fence, revision, None, True, abandoned))
        return Standing(Place.ADMITTED, fence, abandoned)

    def _behind(self, seat: Seat, ahead: Ahead, fence: int, revision: int) -> Standing:
        before = seat.view.ahead
        if before is not None and before.fence != ahead.fence:
            self._sightings.forget(_sign(before))
        seat.learn(View(fence, revision, ahead))
        return Standing(Place.WAITING, fence, recheck=self.left(ahead))

    async def abandoned(
        self, keys: Keys, fence: int, trace: Trace | None, until: float, before: int = 0
    ) -> bool:
        """Whether the one who was first before the one with this fence did not release."""
        if trace is None:
            return False
        known = trace.abandoned(fence, before)
        if known is not None:
            return known
        request = RangeRequest(
            key=keys.queue,
            range_end=keys.end,
            revision=trace.revision,
            max_create_revision=fence - 1,
            limit=1,
            keys_only=True,
        )
        try:
            answer = await self.cluster.ask(RANGE, request, until, repeatable=True)
        except Compacted:
            return True  # better one warning too many
        return bool(answer.kvs)

    async def _take_out(self, seat: Seat, until: float) -> bool:
        """Take out the ticket ahead, which has expired; False: it could not be done now."""
        ahead = seat.view.ahead
        assert ahead is not None
        try:
            traces = await self.leases.traces(until)
            await self.ask(requests.take_out(seat.keys, ahead, traces), until)
        except Broken:
            return False  # where the own ticket stands is known all the same
        self._sightings.forget(_sign(ahead))
        return True

    # --- leaving

    async def leave(self, ticket: Ticket, departure: Departure, until: float) -> bool:
        seat = self.seats.pop(ticket.id, None)
        if seat is None:  # it has left before, or its request to join comes late
            seat = await self.find(ticket, until)
            return seat is not None and await self._leave(seat, departure, until)
        if seat.view.ahead is not None:
            self._sightings.forget(_sign(seat.view.ahead))
        left = await self._leave(seat, departure, until)
        if not seat.unanswered:
            self._give_back(ticket.id, seat)
        return left

    async def find(self, ticket: Ticket, until: float) -> Seat | None:
        """Look for a ticket of which nothing is known here."""
        keys = Keys.of(ticket.name)
        request = RangeRequest(key=keys.queue, range_end=keys.end)
        answer = await self.cluster.ask(RANGE, request, until, repeatable=True)
        for kv in answer.kvs:
            if Card.unpack(kv.value).id == ticket.id:
                seat = Seat(ticket, kv.key.removeprefix(keys.queue).decode())
                seat.learn(View(kv.create_revision, answer.header.revision))
                return seat
        return None

    async def _leave(self, seat: Seat, departure: Departure, until: float) -> bool:
        while True:
            if not seat.view.fence:
                request = RangeRequest(key=seat.key)
                answer = await self.cluster.ask(RANGE, request, until, repeatable=True)
                own = first(answer)
                if own is None:
                    return False
                seat.learn(View(own.create_revision, answer.header.revision))
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

    async def _left_as(self, seat: Seat, departure: Departure, traces: Lease, until: float) -> bool:
        """Take out the ticket with this fence; False: it was not there."""
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
                abandoned = await self.abandoned(seat.keys, seat.view.fence, trace, until)
        if departure is Departure.WITHDRAWN and abandoned:
            return (await self.ask(requests.abandon(seat, traces), until)).succeeded
        answer = await self.ask(requests.release(seat, traces), until)
        return bool(answer.succeeded or answer.responses[0].response_txn.succeeded)

    def _give_back(self, id: str, seat: Seat) -> None:
        """Every request about this ticket was answered: its label may serve another one."""
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
        left = self._sightings.left(sign, ahead.version, ahead.ttl, self.io.now())
        return min(max(left, 0.0), ahead.ttl)

    def saw_renewed(self, kv: KeyValue) -> None:
        """A ticket ahead of one that waits here was renewed: from now on its ttl counts anew."""
        self.left(Ahead.read(kv))


def _sign(ahead: Ahead) -> str:
    return f"{ahead.key!r}{ahead.fence}"
