"""The etcd engine: one transaction per operation, watches for the wake-ups.

Correctness locks: a majority of servers decides who is next, and the order of their decisions is the
fence. A ticket's ttl is counted by whoever stands behind it, because etcd has no clock to ask.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Sequence

from holdfast.core.errors import EngineError
from holdfast.core.names import matches
from holdfast.core.sightings import Sightings
from holdfast.core.ticket import Contender, Departure, Inspection, Place, Standing, Ticket
from holdfast.core.url import Url
from holdfast.engines.contract import Engine, Traits
from holdfast.engines.etcd import requests
from holdfast.engines.etcd.blocking import BlockingNode
from holdfast.engines.etcd.cluster import Cluster
from holdfast.engines.etcd.keys import QUEUES, QUEUES_END, Card, Keys, name_of
from holdfast.engines.etcd.leases import SPARE, Lease, Leases
from holdfast.engines.etcd.messages_pb2 import KeyValue, RangeRequest, TxnRequest, TxnResponse
from holdfast.engines.etcd.multiplexed import AsyncioNode
from holdfast.engines.etcd.node import Node
from holdfast.engines.etcd.seat import Ahead, Seat
from holdfast.engines.etcd.traces import Trace
from holdfast.engines.etcd.troubles import Broken, Compacted, LeaseGone, explained
from holdfast.engines.etcd.urls import credentials_of, login_of
from holdfast.engines.etcd.watches import Watches
from holdfast.engines.etcd.wire import RANGE, TXN, first, txn
from holdfast.io.contract import IO

_CHUNK = 100
"""Tickets that are renewed in one transaction; etcd takes 128 steps by default."""

_PAGE = 5_000
"""Keys that are listed in one request."""

_CONFIRMING = 2.0
"""Seconds that it may take to make sure that one is the next."""

_GLIMPSED = 1_000
"""Tickets behind which nobody here waits, of which it is remembered when they were seen."""


class EtcdEngine(Engine):
    """Queues on etcd."""

    traits = Traits(
        guarantee="correctness",
        fencing=(
            "the revision at which a ticket was created: falls only if the cluster is restored from "
            "a snapshot without --bump-revision"
        ),
        clock="whoever waits counts the ttl of the one ahead; if nobody does, etcd's leader",
        unwatched=SPARE + 2.0,
    )

    def __init__(self, cluster: Cluster, where: str, io: IO) -> None:
        self._cluster = cluster
        self._where = where
        self._io = io
        self._leases = Leases(cluster, io)
        self._watches = Watches(cluster, io, self._renewed)
        self._seats: dict[str, Seat] = {}
        self._sightings = Sightings()
        self._glimpsed: OrderedDict[str, None] = OrderedDict()

    async def enter(self, ticket: Ticket, *, if_free: bool, timeout: float) -> Standing:
        try:
            return await self._enter(ticket, if_free, self._io.now() + timeout)
        except Broken as error:
            raise self._translated(error, ticket.name) from error

    async def renew(self, tickets: Sequence[Ticket], *, timeout: float) -> list[Standing | None]:
        until = self._io.now() + timeout
        standings: list[Standing | None] = [None] * len(tickets)
        try:
            failure = await self._renew(tickets, standings, until)
        except Broken as error:
            failure = error
        if failure is not None and not any(standings):
            name = tickets[0].name if len(tickets) == 1 else None
            raise self._translated(failure, name) from failure
        return standings

    async def leave(
        self, ticket: Ticket, *, timeout: float, departure: Departure = Departure.RELEASED
    ) -> bool:
        seat = self._seats.pop(ticket.id, None) or Seat(ticket)
        self._unwatch(seat)
        if seat.ahead is not None:
            self._sightings.forget(_sign(seat.ahead))
        try:
            return await self._leave(seat, departure, self._io.now() + timeout)
        except Broken as error:
            raise self._translated(error, ticket.name) from error

    async def park(self, ticket: Ticket, until: float) -> Standing | None:
        seat = self._seats.get(ticket.id)
        if seat is None or seat.ahead is None:
            return None
        if seat.watcher is None:
            seat.watcher = self._watches.add(seat.ahead.key, seat.key, seat.revision)
        watcher = seat.watcher
        await watcher.flag.wait(max(0.0, until - self._io.now()))
        try:
            if watcher.broken is not None:
                raise watcher.broken
            if watcher.over:
                # An event may be old news, and tells nothing about the own ticket: make sure.
                return await self._look(seat, self._io.now() + _CONFIRMING)
        except Broken as error:
            raise self._translated(error, ticket.name) from error
        finally:
            if watcher.flag.is_set():
                self._unwatch(seat)
        if watcher.renewed is None:
            return None
        seat.ahead, watcher.renewed = Ahead.read(watcher.renewed), None
        return Standing(Place.WAITING, seat.fence, recheck=self._left(seat.ahead))

    def unpark(self, ticket: Ticket) -> None:
        seat = self._seats.get(ticket.id)
        if seat is not None:
            self._unwatch(seat)

    async def inspect(self, name: str, *, limit: int, timeout: float) -> Inspection:
        try:
            return await self._inspect(name, limit, self._io.now() + timeout)
        except Broken as error:
            raise self._translated(error, name) from error

    async def names(self, pattern: str, *, timeout: float) -> list[str]:
        until = self._io.now() + timeout
        names: set[str] = set()
        start = QUEUES
        try:
            while True:
                request = RangeRequest(key=start, range_end=QUEUES_END, limit=_PAGE, keys_only=True)
                answer = await self._cluster.ask(RANGE, request, until, repeatable=True)
                names.update(name_of(kv.key) for kv in answer.kvs)
                if not answer.more:
                    return sorted(name for name in names if matches(name, pattern))
                start = answer.kvs[-1].key + b"\0"
        except Broken as error:
            raise self._translated(error, None) from error

    async def evict(self, name: str, *, timeout: float) -> bool:
        until = self._io.now() + timeout
        keys = Keys.of(name)
        try:
            while True:
                answer = await self._ask(requests.inspect(keys, 1), until, repeatable=True)
                holder = first(answer.responses[0].response_range)
                if holder is None:
                    return False
                traces = await self._leases.traces(until)
                try:
                    evicted = await self._ask(requests.evict(keys, holder, traces), until)
                except LeaseGone:
                    self._leases.forget(traces)
                    continue
                if evicted.succeeded:
                    return True
        except Broken as error:
            raise self._translated(error, name) from error

    async def close(self) -> None:
        await self._watches.close()
        await self._leases.revoke()
        await self._cluster.close()

    # --- joining and looking

    async def _enter(self, ticket: Ticket, if_free: bool, until: float) -> Standing:
        seat = self._seats.get(ticket.id) or Seat(ticket)
        while True:
            sent = self._io.now()
            ttl = seat.stated(ticket, sent)
            lease = await self._leases.covering(ttl, until)
            traces = await self._leases.traces(until)
            request = requests.enter(seat, ttl, lease, traces, if_free=if_free)
            try:
                answer = await self._ask(request, until)
            except LeaseGone:
                self._leases.forget(lease, traces)
                continue
            if answer.succeeded:
                standing = self._joined(seat, answer, if_free=if_free)
            else:
                seen = requests.seen(seat, answer.responses)
                standing = await self._seated(seat, seen, answer.header.revision, until)
            if standing.place is not Place.REFUSED:
                seat.card = seat.card._replace(ttl=ttl)
                seat.lease, seat.promised = lease, max(seat.promised, sent + ticket.ttl)
                self._seats[ticket.id] = seat
            if standing.place is Place.GONE or (
                standing.recheck <= 0 and await self._take_out(seat, until)
            ):
                continue
            return standing

    def _joined(self, seat: Seat, answer: TxnResponse, *, if_free: bool) -> Standing:
        """Take in the answer to one who was not there yet."""
        joining = answer.responses[0].response_txn
        revision = answer.header.revision
        if joining.succeeded:
            seat.learn(revision, revision, None)
            seat.abandoned = not joining.responses[0].response_txn.succeeded
            return Standing(Place.ADMITTED, revision, seat.abandoned)
        kv = first(joining.responses[0].response_range)
        assert kv is not None
        ahead = Ahead.read(kv)
        if if_free:
            seat.ahead = ahead
            return Standing(Place.REFUSED, recheck=self._left(ahead, glimpsed=True))
        return self._behind(seat, ahead, revision, revision)

    def _behind(self, seat: Seat, ahead: Ahead, fence: int, revision: int) -> Standing:
        before = seat.ahead
        if before is not None and before.key != ahead.key:
            self._unwatch(seat)
            self._sightings.forget(_sign(before))
        seat.learn(fence, revision, ahead)
        return Standing(Place.WAITING, fence, recheck=self._left(ahead))

    async def _seated(
        self, seat: Seat, seen: requests.Seen, revision: int, until: float
    ) -> Standing:
        """Where a ticket stands that was there; GONE if it has vanished since."""
        if not seen.known:
            seat.learn(seen.fence, revision, None)
            seat.admitted = False
            return await self._look(seat, until) or Standing(Place.GONE)
        if seen.ahead is not None:
            return self._behind(seat, seen.ahead, seen.fence, revision)
        if not seat.admitted or seat.abandoned is None:
            before = seat.ahead
            abandoned = await self._abandoned(
                seat.keys, seen.fence, seen.trace, until, before.fence if before else 0
            )
            if before is not None:
                self._sightings.forget(_sign(before))
            seat.learn(seen.fence, revision, None)
            seat.abandoned = abandoned
        return Standing(Place.ADMITTED, seat.fence, seat.abandoned)

    async def _look(self, seat: Seat, until: float) -> Standing | None:
        """Where a ticket stands, without renewing it; None: it is not there."""
        answer = await self._ask(requests.look(seat), until, repeatable=True)
        if not answer.succeeded:
            return None
        seen = requests.looked(seat, answer.responses)
        return await self._seated(seat, seen, answer.header.revision, until)

    async def _abandoned(
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
            answer = await self._cluster.ask(RANGE, request, until, repeatable=True)
        except Compacted:
            return True  # better one warning too many
        return bool(answer.kvs)

    async def _take_out(self, seat: Seat, until: float) -> bool:
        """Take out the ticket ahead, which has expired; False: it could not be done now."""
        ahead = seat.ahead
        assert ahead is not None
        try:
            traces = await self._leases.traces(until)
            await self._ask(requests.take_out(seat.keys, ahead, traces), until)
        except Broken:
            return False  # where the own ticket stands is known all the same
        self._sightings.forget(_sign(ahead))
        return True

    # --- renewing

    async def _renew(
        self, tickets: Sequence[Ticket], standings: list[Standing | None], until: float
    ) -> Broken | None:
        """Renew all at once, and note down how each stands; the last failure, if there was one."""
        waiting = list(range(len(tickets)))
        failure: Broken | None = None
        for _ in range(2):
            again: list[int] = []
            sent = self._io.now()
            seats = {
                index: self._seats.get(tickets[index].id) or Seat(tickets[index])
                for index in waiting
            }
            ttls = {index: seats[index].stated(tickets[index], sent) for index in waiting}
            leases = {index: await self._leases.any_for(ttls[index], until) for index in waiting}
            stale = {
                lease.id: lease
                for index, lease in leases.items()
                if self._leases.stale(lease, ttls[index], sent)
            }
            chunks = [waiting[start : start + _CHUNK] for start in range(0, len(waiting), _CHUNK)]
            calls = [self._leases.keep_alive(lease) for lease in stale.values()] + [
                (TXN, txn(then=[requests.renew(seats[i], ttls[i], leases[i]) for i in chunk]))
                for chunk in chunks
            ]
            answers = await self._cluster.ask_all(calls, until)
            for lease, answer in zip(stale.values(), answers, strict=False):
                if isinstance(answer, Broken):
                    failure = answer
                else:
                    self._leases.kept(lease, answer, sent)
            for chunk, answer in zip(chunks, answers[len(stale) :], strict=True):
                if isinstance(answer, LeaseGone):
                    self._leases.forget(*(leases[index] for index in chunk))
                    again += chunk
                if isinstance(answer, Broken):
                    failure = answer
                    continue
                for index, op in zip(chunk, answer.responses, strict=True):
                    seat, lease = seats[index], leases[index]
                    if not op.response_txn.succeeded:
                        standings[index] = Standing(Place.GONE)
                    elif lease.until < sent + tickets[index].ttl:
                        # It was renewed, but what it lives on was not, or is gone by now.
                        again.append(index)
                    else:
                        seen = requests.seen(seat, op.response_txn.responses)
                        standings[index] = await self._seated(
                            seat, seen, answer.header.revision, until
                        )
                        seat.card = seat.card._replace(ttl=ttls[index])
                        seat.lease = lease
                        seat.promised = max(seat.promised, sent + tickets[index].ttl)
            waiting = again
            if not waiting:
                break
        return failure

    # --- leaving

    async def _leave(self, seat: Seat, departure: Departure, until: float) -> bool:
        while True:
            if not seat.fence:
                answer = await self._cluster.ask(
                    RANGE, RangeRequest(key=seat.key), until, repeatable=True
                )
                kv = first(answer)
                if kv is None:
                    return False
                seat.learn(kv.create_revision, answer.header.revision, None)
                seat.admitted = False
            traces = await self._leases.traces(until)
            try:
                if await self._left_as(seat, departure, traces, until):
                    return True
            except LeaseGone:
                self._leases.forget(traces)
                continue
            seat.fence = 0  # not there, or there anew: a late copy of a request put it there

    async def _left_as(self, seat: Seat, departure: Departure, traces: Lease, until: float) -> bool:
        """Take out the ticket with this fence; False: it was not there."""
        if departure is Departure.LOST:
            return (await self._ask(requests.abandon(seat, traces), until)).succeeded
        if not seat.admitted or (departure is Departure.WITHDRAWN and seat.abandoned is None):
            answer = await self._ask(requests.withdraw(seat), until)
            if not answer.succeeded:
                return False
            withdrawn = answer.responses[0].response_txn
            if not withdrawn.succeeded:
                return True  # it was somewhere in the middle
            if departure is Departure.WITHDRAWN:
                trace = Trace.read(first(withdrawn.responses[0].response_range))
                seat.abandoned = await self._abandoned(seat.keys, seat.fence, trace, until)
        if departure is Departure.WITHDRAWN and seat.abandoned:
            return (await self._ask(requests.abandon(seat, traces), until)).succeeded
        answer = await self._ask(requests.release(seat, traces), until)
        return bool(answer.succeeded or answer.responses[0].response_txn.succeeded)

    # --- looking around

    async def _inspect(self, name: str, limit: int, until: float) -> Inspection:
        keys = Keys.of(name)
        answer = await self._ask(requests.inspect(keys, limit + 1), until, repeatable=True)
        queue = answer.responses[0].response_range
        newest = first(answer.responses[1].response_range)
        trace = Trace.read(first(answer.responses[2].response_range))
        if not queue.kvs:
            return Inspection(name, (), (), 0, 0, trace is not None)
        fence = queue.kvs[0].create_revision
        abandoned = await self._abandoned(keys, fence, trace, until)
        contenders = [self._contender(kv) for kv in queue.kvs]
        holder = contenders[0]
        if trace is not None and trace.state != "held":
            # It is the holder since the one before it left.
            holder = holder._replace(since=min(holder.since, max(0.0, time.time() - trace.at)))
        return Inspection(
            name,
            (holder,),
            tuple(contenders[1:]),
            queue.count - 1,
            newest.create_revision if newest is not None else fence,
            abandoned,
        )

    def _contender(self, kv: KeyValue) -> Contender:
        card = Card.unpack(kv.value)
        since = max(0.0, time.time() - card.joined)
        return Contender(
            card.owner, kv.create_revision, since, self._left(Ahead.read(kv), glimpsed=True)
        )

    # --- helpers

    async def _ask(
        self, request: TxnRequest, until: float, *, repeatable: bool = False
    ) -> TxnResponse:
        answer: TxnResponse = await self._cluster.ask(TXN, request, until, repeatable=repeatable)
        return answer

    def _left(self, ahead: Ahead, *, glimpsed: bool = False) -> float:
        """Seconds until a ticket that was seen just now may be taken out."""
        sign = _sign(ahead)
        if glimpsed:
            self._glimpsed[sign] = None
            self._glimpsed.move_to_end(sign)
            if len(self._glimpsed) > _GLIMPSED:
                self._sightings.forget(self._glimpsed.popitem(last=False)[0])
        left = self._sightings.left(sign, ahead.version, ahead.ttl, self._io.now())
        return min(max(left, 0.0), ahead.ttl)

    def _renewed(self, kv: KeyValue) -> None:
        """A ticket ahead of one that waits here was renewed: from now on its ttl counts anew."""
        self._left(Ahead.read(kv))

    def _unwatch(self, seat: Seat) -> None:
        watcher, seat.watcher = seat.watcher, None
        if watcher is not None:
            self._watches.drop(watcher)

    def _translated(self, error: Broken, name: str | None) -> EngineError:
        return EngineError(f"{self._where}: {explained(error)}", outcome=error.outcome, name=name)


def _sign(ahead: Ahead) -> str:
    return ahead.key.decode(errors="replace")


def open_etcd(url: Url, io: IO) -> EtcdEngine:
    """`etcd://a:2379,b:2379,c:2379` or `etcds://…` with TLS; see docs/engines/etcd.md."""
    credentials = credentials_of(url)
    login = login_of(url)
    if url.path not in ("", "/"):
        raise ValueError(f"{url}: an etcd URL has no path: etcd://host:2379")
    make: type[Node] = BlockingNode if io.blocking else AsyncioNode
    hosts = url.hosts or (("localhost", None),)
    nodes = [make(_address(host, port or 2379), credentials) for host, port in hosts]
    return EtcdEngine(Cluster(nodes, login, io), str(url), io)


def _address(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
