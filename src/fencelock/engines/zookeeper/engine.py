"""The ZooKeeper engine: ephemeral sequential nodes, each waiting for the one ahead of it.

Correctness locks: the ensemble agrees on every step. What a request costs and why it is safe is in
docs/engines/zookeeper.md; `queue.py` is how a queue is read.
"""

from __future__ import annotations

from collections.abc import Sequence

from fencelock.core.errors import EngineError, Unsupported
from fencelock.core.ticket import Departure, Inspection, Place, Standing, Ticket
from fencelock.core.url import Url
from fencelock.engines.contract import Engine, Traits
from fencelock.engines.failure import RequestFailed
from fencelock.engines.tls import TLS_OPTIONS, tls_of
from fencelock.engines.zookeeper import requests as ask
from fencelock.engines.zookeeper.advice import explained
from fencelock.engines.zookeeper.departures import evict, leave, refuse
from fencelock.engines.zookeeper.listing import inspected, names_in_use
from fencelock.engines.zookeeper.notes import Notes
from fencelock.engines.zookeeper.own import Own
from fencelock.engines.zookeeper.queue import GONE, Queues
from fencelock.engines.zookeeper.urls import (
    OPTIONS,
    SESSION,
    credentials_of,
    hosts_of,
    root_of,
)
from fencelock.engines.zookeeper.watches import interrupt
from fencelock.engines.zookeeper.wire import Wire
from fencelock.io.contract import IO

_REARM = 2.0
"""Seconds that a parked ticket gives the servers to tell what the news is."""


class ZooKeeperEngine(Engine):
    """Queues on ZooKeeper."""

    def __init__(self, url: Url, io: IO) -> None:
        tls = tls_of(url) if url.scheme == "zookeepers" else None
        credentials = credentials_of(url)
        self._session = url.seconds("session", SESSION)
        self._where = str(url)
        self._io = io
        self._wire = Wire(
            hosts_of(url), self._session, credentials, tls, io, self._wake_all, self._heard
        )
        acl = ask.acl(credentials is not None)
        self._queues = Queues(self._wire, io, root_of(url), acl)
        self._notes = Notes(self._queues, io, acl)
        self._mine: dict[str, Own] = {}
        self._doubtful: set[str] = set()
        """Tickets that may be in their queue, though no answer said so."""
        self.traits = Traits(
            guarantee="correctness",
            fencing="the transaction that created the ticket (czxid): grows while the ensemble keeps data",
            clock="whoever waits counts the ttl on its own; the servers' for the session behind it",
            supports_sharing=True,
            supports_notes=True,
            accepts_floor=False,
            max_overstay=self._session,
            condition="most of the servers keep what they have on disk",
        )

    async def enter(self, ticket: Ticket, *, if_free: bool, timeout: float) -> Standing:
        until = self._io.now() + timeout
        self._check(ticket)
        try:
            own = await self._own(ticket, until)
            if own is not None:
                standing = await self._queues.look_again(own, ticket, until)
                if standing.place is Place.ADMITTED and ticket.share.group and not own.share.group:
                    standing = await self._queues.turn(own, ticket, until)
                if standing.place is not Place.GONE:
                    return standing
                self._forget(ticket, own)
            return await self._join(ticket, if_free, until)
        except RequestFailed as error:
            raise self._translated(error, ticket.name) from error

    async def renew(self, tickets: Sequence[Ticket], *, timeout: float) -> list[Standing | None]:
        until = self._io.now() + timeout
        pairs = [(ticket, self._mine.get(ticket.id)) for ticket in tickets]
        fitting = [(ticket, own) for ticket, own in pairs if own and not self._too_long(ticket)]
        try:
            known = await self._queues.renew(fitting, until)
        except RequestFailed as error:
            name = tickets[0].name if len(tickets) == 1 else None
            raise self._translated(error, name) from error
        standings: list[Standing | None] = []
        for ticket, own in pairs:
            if own is None:
                standings.append(GONE)
                continue
            standings.append(known.get(ticket.id))
            if standings[-1] is GONE:
                self._forget(ticket, own)
        if standings == [None]:
            problem = self._too_long(tickets[0]) or "not renewed"
            raise EngineError(problem, outcome="not applied", name=tickets[0].name)
        return standings

    async def leave(
        self, ticket: Ticket, *, timeout: float, departure: Departure = Departure.RELEASED
    ) -> bool:
        until = self._io.now() + timeout
        try:
            own = await self._own(ticket, until, search=True)
            was_there = own is not None and await leave(self._queues, own, departure, until)
        except RequestFailed as error:
            raise self._translated(error, ticket.name) from error
        if own is not None:
            self._forget(ticket, own)
        return was_there

    async def park(self, ticket: Ticket, until: float) -> Standing | None:
        own = self._mine.get(ticket.id)
        if own is None or own.event is None:
            return None
        heard, event = False, own.event
        while not own.holds:
            if not await event.wait(until - self._io.now()):
                # That those ahead were renewed is no reason to come back, but good to know at the end.
                return self._queues.watches.standing(own) if heard else None
            event.clear()
            if own.succeeds:
                return self._queues.hold(own, abandoned=False)
            if own.roused:
                own.roused = False
                if own.has_news:
                    event.set()  # for the next one who parks
                return None
            heard = True
            try:
                standing = await self._queues.hear(own, self._io.now() + _REARM)
            except RequestFailed as error:
                own.gone = True  # what the news was is still to be found out
                interrupt(own)
                raise self._translated(error, ticket.name) from error
            if standing.place is Place.GONE:
                self._forget(ticket, own)
                return None
        return own.standing()

    def unpark(self, ticket: Ticket) -> None:
        own = self._mine.get(ticket.id)
        if own is not None and own.event is not None:
            own.event = None

    def interrupt(self, ticket: Ticket) -> None:
        own = self._mine.get(ticket.id)
        if own is not None:
            own.roused = True
            interrupt(own)

    async def remember(self, ticket: Ticket, text: str, *, keep: float, timeout: float) -> bool:
        until = self._io.now() + timeout
        try:
            own = await self._own(ticket, until, search=True)
            if own is None or not await self._queues.holds(own, until):
                return False
            return await self._notes.remember(own.path, ticket.name, text, keep, until)
        except RequestFailed as error:
            raise self._translated(error, ticket.name) from error

    async def recall(self, name: str, *, timeout: float) -> str | None:
        try:
            return await self._notes.recall(name, self._io.now() + timeout)
        except RequestFailed as error:
            raise self._translated(error, name) from error

    async def inspect(self, name: str, *, limit: int, timeout: float) -> Inspection:
        try:
            return await inspected(self._queues, name, limit, self._io.now() + timeout)
        except RequestFailed as error:
            raise self._translated(error, name) from error

    async def names(self, pattern: str, *, timeout: float) -> list[str]:
        try:
            return await names_in_use(self._queues, pattern, self._io.now() + timeout)
        except RequestFailed as error:
            raise self._translated(error, None) from error

    async def evict(self, name: str, *, timeout: float) -> bool:
        try:
            return await evict(self._queues, name, self._io.now() + timeout)
        except RequestFailed as error:
            raise self._translated(error, name) from error

    async def write_held(
        self, ticket: Ticket, fence: int, change: ask.Request, *, timeout: float
    ) -> int | None:
        """Change a node of somebody's, provided that the ticket stands with its fence: for guards. If it
        does not, nothing happens; the answer is then the holder's fence, 0 if there is none."""
        until = self._io.now() + timeout
        own = self._mine.get(ticket.id)
        try:
            if own is not None and own.fence == fence:
                batch = await self._wire.exchange([ask.write_held(own.path, change)], until)
                (reply,) = batch.replies
                if ask.done(reply):
                    return None
                if not ask.missing(reply):
                    raise reply[1] if isinstance(reply, list) else reply
            seen = await inspected(self._queues, ticket.name, 0, until)
        except RequestFailed as error:
            raise self._translated(error, ticket.name) from error
        return seen.holders[0].fence if seen.holders else 0

    async def close(self) -> None:
        self._wake_all()
        await self._wire.close()

    def _wake_all(self) -> None:
        self._queues.watches.wake_all()

    def _heard(self, path: str) -> None:
        self._queues.watches.heard(path)

    # --- one ticket

    async def _own(self, ticket: Ticket, until: float, *, search: bool = False) -> Own | None:
        """What is known of a ticket; if its fate is not, look for it."""
        own = self._mine.get(ticket.id)
        if own is None and (search or ticket.id in self._doubtful):
            own = await self._queues.find(ticket, until)
            self._doubtful.discard(ticket.id)
            if own is not None:
                self._mine[ticket.id] = own
        return own

    async def _join(self, ticket: Ticket, if_free: bool, until: float) -> Standing:
        """Stand in the queue as a newcomer."""
        while True:
            self._doubtful.add(ticket.id)
            try:
                own, standing = await self._queues.join(ticket, until)
            except RequestFailed as error:
                if error.outcome == "not applied":
                    self._doubtful.discard(ticket.id)
                raise
            self._mine[ticket.id] = own
            self._doubtful.discard(ticket.id)
            try:
                self._check(ticket)  # once more: with the session its length is known
            except Unsupported:
                await leave(self._queues, own, Departure.WITHDRAWN, until)
                self._forget(ticket, own)
                raise
            if standing is None:
                if if_free:
                    standing = await refuse(self._queues, own, until)
                else:
                    standing = await self._queues.hear(own, until)
            if standing.place in (Place.GONE, Place.REFUSED):
                self._forget(ticket, own)
            if standing.place is not Place.GONE:
                return standing

    def _forget(self, ticket: Ticket, own: Own) -> None:
        """It is gone. Not so one that has taken its place meanwhile: a renewal may come to know late."""
        self._queues.watches.let_go(own)
        if self._mine.get(ticket.id) is own:
            del self._mine[ticket.id]

    @property
    def _longest(self) -> float:
        """The length of a session, as far as it is known."""
        return self._wire.negotiated or self._session

    def _check(self, ticket: Ticket) -> None:
        if problem := self._too_long(ticket):
            raise Unsupported(problem, name=ticket.name, longest_ttl=self._longest)

    def _too_long(self, ticket: Ticket) -> str | None:
        """A session that ended before the ttl would take the ticket with it, against the promise."""
        granted = self._longest
        if ticket.ttl <= granted:
            return None
        limit = "" if granted >= self._session else ", and raise maxSessionTimeout on the servers"
        return (
            f"{self._where}: a ttl of {ticket.ttl:g} s does not fit into a session of {granted:g} s: "
            f"use a shorter ttl, or ask for a longer session with ?session=SECONDS{limit}"
        )

    def _translated(self, error: RequestFailed, name: str | None) -> EngineError:
        return EngineError(f"{self._where}: {explained(error)}", outcome=error.outcome, name=name)


def open_zookeeper(url: Url, io: IO) -> ZooKeeperEngine:
    """`zookeeper://` and, with TLS, `zookeepers://`; see docs/engines/zookeeper.md."""
    url.only(*OPTIONS, *(TLS_OPTIONS if url.scheme == "zookeepers" else ()))
    return ZooKeeperEngine(url, io)
