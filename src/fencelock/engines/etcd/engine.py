"""The etcd engine: one transaction per operation, watches for the wake-ups.

For correctness locks: a majority of servers decides who is next, and the order of their decisions is the
fence. The waiter behind a ticket counts that ticket's ttl, because etcd has no clock to ask.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import grpc

from fencelock.core.errors import EngineError
from fencelock.core.note import Note
from fencelock.core.ticket import Departure, Inspection, Place, Standing, Ticket
from fencelock.core.url import Url
from fencelock.engines.contract import Engine, Traits
from fencelock.engines.diagnosis import Server
from fencelock.engines.etcd import diagnosis, listing, notes
from fencelock.engines.etcd.blocking import BlockingNode
from fencelock.engines.etcd.cluster import Cluster
from fencelock.engines.etcd.entering import enter
from fencelock.engines.etcd.entry import Entry, View
from fencelock.engines.etcd.errors import with_advice
from fencelock.engines.etcd.keys import Keys
from fencelock.engines.etcd.leases import SPARE
from fencelock.engines.etcd.leaving import leave
from fencelock.engines.etcd.listener import Listener
from fencelock.engines.etcd.messages_pb2 import AuthenticateRequest
from fencelock.engines.etcd.multiplexed import AsyncioNode
from fencelock.engines.etcd.node import Node
from fencelock.engines.etcd.renewing import renew
from fencelock.engines.etcd.tickets import Tickets
from fencelock.engines.etcd.watches import Watcher
from fencelock.engines.etcd.wire import created_at, delete, first, oldest, put, txn
from fencelock.engines.failure import RequestFailed, translated
from fencelock.engines.tls import tls_with_files
from fencelock.io.contract import IO

_LOOK_TIMEOUT = 2.0
"""Seconds that a ticket that was woken may take to make sure that it is admitted."""

_TLS_OPTIONS = ("ca", "cert", "key")


class EtcdEngine(Engine):
    """Queues on etcd."""

    traits = Traits(
        guarantee="correctness",
        fencing=(
            "the revision at which a ticket was created: falls only if the cluster is restored from "
            "a snapshot without --bump-revision"
        ),
        clock="each waiter counts the ttl of the ticket ahead; if nobody waits, etcd's leader does",
        supports_sharing=True,
        supports_notes=True,
        portable=True,
        accepts_floor=False,
        max_overstay=SPARE + 2.0,
        condition="most of the servers keep what they have on disk",
    )

    def __init__(self, cluster: Cluster, url: Url, io: IO) -> None:
        self._cluster = cluster
        self._url = url
        self._where = str(url)
        self._io = io
        self._tickets = Tickets(cluster, io)
        self._listener = Listener(cluster, io, self._tickets.expiry.reached)

    @translated
    async def enter(self, ticket: Ticket, *, if_free: bool, timeout: float) -> Standing:
        return await enter(self._tickets, ticket, if_free, self._io.now() + timeout)

    @translated
    async def renew(self, tickets: Sequence[Ticket], *, timeout: float) -> list[Standing | None]:
        return await renew(self._tickets, tickets, self._io.now() + timeout)

    @translated
    async def leave(
        self, ticket: Ticket, *, timeout: float, departure: Departure = Departure.RELEASED
    ) -> bool:
        self.unpark(ticket)
        return await leave(self._tickets, ticket, departure, self._io.now() + timeout)

    @translated
    async def park(self, ticket: Ticket, until: float) -> Standing | None:
        tickets, io = self._tickets, self._io
        while True:
            entry = tickets.entries.get(ticket.id)
            view = View() if entry is None else entry.view
            if entry is None or not view.ahead:
                return None
            watcher = self._watcher(entry, view)
            await watcher.flag.wait(max(0.0, until - io.now()))
            try:
                if watcher.broken is not None:
                    raise watcher.broken
                if watcher.must_look:
                    deadline = io.now() + _LOOK_TIMEOUT
                    if watcher.late and await tickets.unchanged(entry, view, deadline):
                        continue  # nothing happened before the watches began
                    # An event may be old, and tells nothing about our own ticket: make sure. The answer of
                    # one server is enough. The first ticket stays the first until it goes itself, and this
                    # client counts when that may be. A majority would first wait for others' writes.
                    standing = await tickets.look(entry, deadline, heard=watcher.heard)
                    if standing is None or not watcher.late or not entry.view.only_renewed(view):
                        return standing
                    continue
            finally:
                if watcher.flag.is_set():
                    self.unpark(ticket)
            if not watcher.renewed:
                return None
            watcher.renewed = False
            recheck = min(map(tickets.left, tuple(watcher.ahead.values())))
            return Standing(Place.WAITING, view.fence, recheck=recheck)

    def _watcher(self, entry: Entry, view: View) -> Watcher:
        watcher = entry.watcher
        if watcher is not None and not watcher.waits_for(view.ahead):
            self._listener.drop(watcher)
            watcher = None
        if watcher is None:
            flag, saw_renewal = self._io.event(), self._tickets.saw_renewal
            # First into the entry: if the waiter is interrupted, it is dropped together with its entry.
            watcher = entry.watcher = Watcher(view.blockers, view.revision, flag, saw_renewal)
            self._listener.add(watcher, entry.key)
        return watcher

    def unpark(self, ticket: Ticket) -> None:
        entry = self._tickets.entries.get(ticket.id)
        if entry is not None and entry.watcher is not None:
            watcher, entry.watcher = entry.watcher, None
            self._listener.drop(watcher)

    def interrupt(self, ticket: Ticket) -> None:
        entry = self._tickets.entries.get(ticket.id)
        if entry is not None and (watcher := entry.watcher) is not None:
            watcher.flag.set()

    @translated
    async def remember(self, ticket: Ticket, text: str, *, keep: float, timeout: float) -> bool:
        note = Note(keep, text)
        return await notes.remember(self._tickets, ticket, note, self._io.now() + timeout)

    @translated
    async def recall(self, name: str, *, timeout: float) -> str | None:
        return await notes.recall(self._tickets, name, self._io.now() + timeout)

    @translated
    async def inspect(self, name: str, *, limit: int, timeout: float) -> Inspection:
        return await listing.inspect(self._tickets, name, limit, self._io.now() + timeout)

    @translated
    async def names(self, pattern: str, *, timeout: float) -> list[str]:
        return await listing.names(self._cluster, pattern, self._io.now() + timeout)

    @translated
    async def evict(self, name: str, *, timeout: float) -> bool:
        return await listing.evict(self._tickets, name, self._io.now() + timeout)

    @translated
    async def write_held(
        self,
        ticket: Ticket,
        fence: int,
        changes: Sequence[tuple[bytes, bytes | None]],
        *,
        timeout: float,
    ) -> int | None:
        """For guards: put keys, or delete those without a value, if the ticket is there with its fence.

        Returns None if it is. Otherwise writes nothing, and returns the holder's fence, or 0 if nobody holds.
        """
        keys, entry = Keys.of(ticket.name), self._tickets.entries.get(ticket.id)
        # A ticket that has left has no key. The queue's own prefix never exists, so nothing is written.
        key = keys.queue if entry is None else entry.key
        writes = [put(at, value, 0) if value is not None else delete(at) for at, value in changes]
        request = txn([created_at(key, fence)], writes, [oldest(keys.queue, keys.end, 1)])
        answer = await self._cluster.txn(request, self._io.now() + timeout)
        if answer.succeeded:
            return None
        holder = first(answer.responses[0].response_range)
        return holder.create_revision if holder is not None else 0

    async def diagnose(self, *, timeout: float, probe: bool = False) -> list[Server]:
        tls = tls_with_files(self._url, *_TLS_OPTIONS) if self._url.scheme == "etcds" else None
        return await diagnosis.describe(self._cluster, tls, self._io, timeout)

    async def close(self) -> None:
        try:
            await self._listener.close()
            await self._tickets.leases.close()
        finally:
            await self._cluster.close()

    def _translated(self, error: RequestFailed, name: str | None) -> EngineError:
        return EngineError(f"{self._where}: {with_advice(error)}", outcome=error.outcome, name=name)


def open_etcd(url: Url, io: IO) -> EtcdEngine:
    """`etcd://a:2379,b:2379,c:2379` or `etcds://…` with TLS; see docs/engines/etcd.md."""
    credentials = _credentials(url)
    if (url.user is None) != (url.password is None):
        raise ValueError(f"{url}: a login needs both, as in etcd://user:password@host")
    login = (
        AuthenticateRequest(name=url.user, password=url.password) if url.user is not None else None
    )
    if url.path not in ("", "/"):
        raise ValueError(f"{url}: an etcd URL has no path: etcd://host:2379")
    make: type[Node] = BlockingNode if io.blocking else AsyncioNode
    hosts = url.hosts or (("localhost", None),)
    nodes = [
        make(f"[{host}]:{port or 2379}" if ":" in host else f"{host}:{port or 2379}", credentials)
        for host, port in hosts
    ]
    return EtcdEngine(Cluster(nodes, login, io), url, io)


def _credentials(url: Url) -> grpc.ChannelCredentials | None:
    """The authority to trust and the client's certificate. None if the URL does not ask for TLS."""
    if url.scheme == "etcd":
        url.only()
        return None
    url.only(*_TLS_OPTIONS)
    if ("key" in url.options) != ("cert" in url.options):
        raise ValueError(f"{url}: the options cert and key go together")
    try:
        ca, cert, key = (
            Path(url.options[option]).read_bytes() if option in url.options else None
            for option in _TLS_OPTIONS
        )
    except OSError as error:
        raise ValueError(f"{url}: can't read the certificate files: {error}") from error
    return grpc.ssl_channel_credentials(ca, key, cert)
