"""The etcd engine: one transaction per operation, watches for the wake-ups.

For correctness locks: a majority of servers decides who is next, and the order of their decisions is the
fence. The waiter behind a ticket counts that ticket's ttl, because etcd has no clock to ask.
"""

from __future__ import annotations

from collections.abc import Sequence

from fencelock.core.errors import EngineError
from fencelock.core.note import Note
from fencelock.core.ticket import Departure, Inspection, Standing, Ticket
from fencelock.core.url import Url
from fencelock.engines.contract import Engine, Traits
from fencelock.engines.etcd import listing, notes, parking
from fencelock.engines.etcd.blocking import BlockingNode
from fencelock.engines.etcd.cluster import Cluster
from fencelock.engines.etcd.entering import enter
from fencelock.engines.etcd.errors import with_advice
from fencelock.engines.etcd.keys import Keys
from fencelock.engines.etcd.leases import SPARE
from fencelock.engines.etcd.leaving import leave
from fencelock.engines.etcd.listener import Listener
from fencelock.engines.etcd.multiplexed import AsyncioNode
from fencelock.engines.etcd.node import Node
from fencelock.engines.etcd.renewing import renew
from fencelock.engines.etcd.tickets import Tickets
from fencelock.engines.etcd.urls import credentials_of, login_of
from fencelock.engines.etcd.wire import created_at, delete, first, oldest, put, txn
from fencelock.engines.failure import RequestFailed, translated
from fencelock.io.contract import IO


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
        accepts_floor=False,
        max_overstay=SPARE + 2.0,
        condition="most of the servers keep what they have on disk",
    )

    def __init__(self, cluster: Cluster, where: str, io: IO) -> None:
        self._cluster = cluster
        self._where = where
        self._io = io
        self._tickets = Tickets(cluster, io)
        self._listener = Listener(
            cluster, io, self._tickets.saw_renewal, self._tickets.expiry.reached
        )

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
        return await parking.park(self._tickets, self._listener, ticket, until)

    def unpark(self, ticket: Ticket) -> None:
        parking.unpark(self._tickets, self._listener, ticket)

    def interrupt(self, ticket: Ticket) -> None:
        parking.interrupt(self._tickets, ticket)

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
