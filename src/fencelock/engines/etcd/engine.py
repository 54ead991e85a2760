"""The etcd engine: one transaction per operation, watches for the wake-ups.

Correctness locks: a majority of servers decides who is next, and the order of their decisions is the
fence. A ticket's ttl is counted by whoever stands behind it, because etcd has no clock to ask.
"""

from __future__ import annotations

from collections.abc import Sequence

from fencelock.core.errors import EngineError
from fencelock.core.names import matches
from fencelock.core.ticket import Departure, Inspection, Place, Standing, Ticket
from fencelock.core.url import Url
from fencelock.engines.contract import Engine, Traits
from fencelock.engines.etcd import requests
from fencelock.engines.etcd.blocking import BlockingNode
from fencelock.engines.etcd.cluster import Cluster
from fencelock.engines.etcd.ears import Watcher
from fencelock.engines.etcd.keys import QUEUES, QUEUES_END, Keys, name_of
from fencelock.engines.etcd.leases import SPARE
from fencelock.engines.etcd.listing import evict, inspected
from fencelock.engines.etcd.messages_pb2 import RangeRequest
from fencelock.engines.etcd.multiplexed import AsyncioNode
from fencelock.engines.etcd.node import Node
from fencelock.engines.etcd.notes import Notes
from fencelock.engines.etcd.queues import Queues
from fencelock.engines.etcd.renewals import renew
from fencelock.engines.etcd.seat import Seat, View
from fencelock.engines.etcd.troubles import CallFailed, explained
from fencelock.engines.etcd.urls import credentials_of, login_of
from fencelock.engines.etcd.watches import Watches
from fencelock.engines.etcd.wire import RANGE, first
from fencelock.io.contract import IO

_PAGE = 5_000
"""Keys that are listed in one request."""

_CONFIRMING = 2.0
"""Seconds that it may take to make sure that one is the next."""


class EtcdEngine(Engine):
    """Queues on etcd."""

    traits = Traits(
        guarantee="correctness",
        fencing=(
            "the revision at which a ticket was created: falls only if the cluster is restored from "
            "a snapshot without --bump-revision"
        ),
        clock="whoever waits counts the ttl of the one ahead; if nobody does, etcd's leader",
        supports_sharing=True,
        supports_notes=True,
        accepts_floor=False,
        max_overstay=SPARE + 2.0,
        condition="most of the servers keep what they have on disk",
    )

    def __init__(self, cluster: Cluster, where: str, io: IO) -> None:
        self._cluster = cluster
        self._where = where
        self._io = io
        self._queues = Queues(cluster, io)
        self._notes = Notes(self._queues)
        self._watches = Watches(cluster, io, self._queues.saw_renewed, self._queues.revisions)

    async def enter(self, ticket: Ticket, *, if_free: bool, timeout: float) -> Standing:
        try:
            return await self._queues.enter(ticket, if_free, self._io.now() + timeout)
        except CallFailed as error:
            raise self._translated(error, ticket.name) from error

    async def renew(self, tickets: Sequence[Ticket], *, timeout: float) -> list[Standing | None]:
        try:
            return await renew(self._queues, tickets, self._io.now() + timeout)
        except CallFailed as error:
            name = tickets[0].name if len(tickets) == 1 else None
            raise self._translated(error, name) from error

    async def leave(
        self, ticket: Ticket, *, timeout: float, departure: Departure = Departure.RELEASED
    ) -> bool:
        self.unpark(ticket)
        try:
            return await self._queues.leave(ticket, departure, self._io.now() + timeout)
        except CallFailed as error:
            raise self._translated(error, ticket.name) from error

    async def park(self, ticket: Ticket, until: float) -> Standing | None:
        while True:
            seat = self._queues.seats.get(ticket.id)
            view = View() if seat is None else seat.view
            if seat is None or not view.ahead:
                return None
            watcher = self._listening(seat, view)
            await watcher.flag.wait(max(0.0, until - self._io.now()))
            try:
                if watcher.broken is not None:
                    raise watcher.broken
                if watcher.over:
                    confirming = self._io.now() + _CONFIRMING
                    if watcher.late and await self._queues.unchanged(seat, view, confirming):
                        continue  # nothing had happened before we listened
                    # An event may be old news, and tells nothing about the own ticket: make sure. What one
                    # server knows is enough: who is first stays first until its own ticket goes, and
                    # when that may be is counted here. To ask all would wait for others' writes.
                    standing = await self._queues.look(seat, confirming, heard=watcher.heard)
                    if standing is None or not watcher.late or not seat.view.only_renewed(view):
                        return standing
                    continue
            except CallFailed as error:
                raise self._translated(error, ticket.name) from error
            finally:
                if watcher.flag.is_set():
                    self.unpark(ticket)
            if not watcher.renewed:
                return None
            watcher.renewed = False
            recheck = min(map(self._queues.left, tuple(watcher.ahead.values())))
            return Standing(Place.WAITING, view.fence, recheck=recheck)

    def _listening(self, seat: Seat, view: View) -> Watcher:
        watcher = seat.watcher
        if watcher is not None and not watcher.listens_to(view.ahead):
            self._watches.drop(watcher)
            watcher = None
        if watcher is None:
            flag = self._io.event()
            # The seat knows it first: if the waiter is interrupted, it is dropped with its seat.
            watcher = seat.watcher = Watcher(view.ahead, view.lacking, view.revision, flag)
            self._watches.add(watcher, seat.key)
        return watcher

    def unpark(self, ticket: Ticket) -> None:
        seat = self._queues.seats.get(ticket.id)
        if seat is not None and seat.watcher is not None:
            watcher, seat.watcher = seat.watcher, None
            self._watches.drop(watcher)

    def interrupt(self, ticket: Ticket) -> None:
        seat = self._queues.seats.get(ticket.id)
        if seat is not None and (watcher := seat.watcher) is not None:
            watcher.flag.set()

    async def remember(self, ticket: Ticket, text: str, *, keep: float, timeout: float) -> bool:
        try:
            return await self._notes.remember(ticket, text, keep, self._io.now() + timeout)
        except CallFailed as error:
            raise self._translated(error, ticket.name) from error

    async def recall(self, name: str, *, timeout: float) -> str | None:
        try:
            return await self._notes.recall(name, self._io.now() + timeout)
        except CallFailed as error:
            raise self._translated(error, name) from error

    async def inspect(self, name: str, *, limit: int, timeout: float) -> Inspection:
        try:
            return await inspected(self._queues, name, limit, self._io.now() + timeout)
        except CallFailed as error:
            raise self._translated(error, name) from error

    async def names(self, pattern: str, *, timeout: float) -> list[str]:
        until = self._io.now() + timeout
        names: set[str] = set()
        start = QUEUES
        try:
            while True:
                request = RangeRequest(key=start, range_end=QUEUES_END, limit=_PAGE, keys_only=True)
                answer = await self._cluster.ask(RANGE, request, until, repeatable=True)
                names.update(name for kv in answer.kvs if (name := name_of(kv.key)) is not None)
                if not answer.more:
                    return sorted(name for name in names if matches(name, pattern))
                start = answer.kvs[-1].key + b"\0"
        except CallFailed as error:
            raise self._translated(error, None) from error

    async def evict(self, name: str, *, timeout: float) -> bool:
        until = self._io.now() + timeout
        try:
            return await evict(self._queues, Keys.of(name), until)
        except CallFailed as error:
            raise self._translated(error, name) from error

    async def write_held(
        self,
        ticket: Ticket,
        fence: int,
        changes: Sequence[tuple[bytes, bytes | None]],
        *,
        timeout: float,
    ) -> int | None:
        """Put keys, or delete those without a value, provided that the ticket stands with its fence: for
        guards. If it does not, nothing happens; the answer is then the holder's fence, 0 if there is none."""
        until = self._io.now() + timeout
        keys, seat = Keys.of(ticket.name), self._queues.seats.get(ticket.id)
        key = None if seat is None else seat.key
        try:
            answer = await self._queues.ask(requests.write_held(keys, key, fence, changes), until)
        except CallFailed as error:
            raise self._translated(error, ticket.name) from error
        if answer.succeeded:
            return None
        holder = first(answer.responses[0].response_range)
        return holder.create_revision if holder is not None else 0

    async def close(self) -> None:
        try:
            await self._watches.close()
            await self._queues.leases.revoke()
        finally:
            await self._cluster.close()

    def _translated(self, error: CallFailed, name: str | None) -> EngineError:
        return EngineError(f"{self._where}: {explained(error)}", outcome=error.outcome, name=name)


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
