"""The ZooKeeper engine: the operations of the contract, one by one.

Correctness locks: the ensemble agrees on every step. What a request costs and why it is safe is in
docs/engines/zookeeper.md. The package's docstring has a map of the files.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

from fencelock.core.errors import EngineError, Unsupported
from fencelock.core.ticket import Departure, Inspection, Place, Standing, Ticket
from fencelock.core.url import Url
from fencelock.engines.contract import Engine, Traits
from fencelock.engines.diagnosis import Server
from fencelock.engines.failure import RequestFailed, translated
from fencelock.engines.zookeeper import diagnosis, leaving, queueing, requests
from fencelock.engines.zookeeper.batch import done, missing
from fencelock.engines.zookeeper.entry import Entry
from fencelock.engines.zookeeper.inspection import inspect, names_in_use
from fencelock.engines.zookeeper.notes import Notes
from fencelock.engines.zookeeper.queues import GONE, Queues
from fencelock.engines.zookeeper.transport import Transport
from fencelock.engines.zookeeper.urls import settings_of
from fencelock.io.contract import IO

_NEWS_TIMEOUT = 2.0
"""Seconds that the servers get to tell a parked ticket what the news about its blockers is."""


class ZooKeeperEngine(Engine):
    """Queues on ZooKeeper."""

    def __init__(self, url: Url, io: IO) -> None:
        settings = settings_of(url)
        self._settings = settings
        self._session = settings.session
        self._where = str(url)
        self._io = io
        self._transport = Transport(settings, io)
        acl = requests.acl(owned=settings.credentials is not None)
        self._queues = Queues(self._transport, io, settings.root, acl)
        self._notes = Notes(self._queues)
        self._entries: dict[str, Entry] = {}
        """By a ticket's id, what is known of it."""
        self._doubtful: set[str] = set()
        """The ids of tickets that may be in their queue, though no answer said so."""
        self.traits = Traits(
            guarantee="correctness",
            fencing="the transaction that created the ticket (czxid): grows while the ensemble keeps data",
            clock="each waiter counts the ttl on its own clock; the servers count the session behind it",
            supports_sharing=True,
            supports_notes=True,
            accepts_floor=False,
            max_overstay=self._session,
            condition="most of the servers keep what they have on disk",
        )

    @translated
    async def enter(self, ticket: Ticket, *, if_free: bool, timeout: float) -> Standing:
        until = self._io.now() + timeout
        self._check_ttl(ticket)
        entry = await self._entry(ticket, until)
        if entry is not None:
            pair = ticket, entry
            standing = (await queueing.renew(self._queues, [pair], until, watch=True))[ticket.id]
            if standing.place is Place.ADMITTED and ticket.share.group and not entry.share.group:
                standing = await queueing.downgrade(self._queues, entry, ticket, until)
            if standing.place is not Place.GONE:
                return standing
            self._forget(ticket, entry)
        return await self._join(ticket, if_free, until)

    @translated
    async def renew(self, tickets: Sequence[Ticket], *, timeout: float) -> list[Standing | None]:
        until = self._io.now() + timeout
        pairs = [(ticket, entry) for ticket in tickets if (entry := self._entries.get(ticket.id))]
        too_long = {ticket.id: text for ticket, _ in pairs if (text := self._too_long(ticket))}
        if too_long and len(tickets) == 1:
            (text,) = too_long.values()
            raise EngineError(text, outcome="not applied", name=tickets[0].name)
        fitting = [(ticket, entry) for ticket, entry in pairs if ticket.id not in too_long]
        known = await queueing.renew(self._queues, fitting, until)
        for ticket, entry in fitting:
            if known[ticket.id] is GONE:
                self._forget(ticket, entry)
        return [None if ticket.id in too_long else known.get(ticket.id, GONE) for ticket in tickets]

    @translated
    async def leave(
        self, ticket: Ticket, *, timeout: float, departure: Departure = Departure.RELEASED
    ) -> bool:
        until = self._io.now() + timeout
        entry = await self._entry(ticket, until, search=True)
        if entry is None:
            return False
        was_there = await leaving.leave(self._queues, entry, departure, until)
        self._forget(ticket, entry)
        return was_there

    @translated
    async def park(self, ticket: Ticket, until: float) -> Standing | None:
        entry = self._entries.get(ticket.id)
        if entry is None or entry.event is None:
            return None
        renewed, event = False, entry.event
        while not entry.holds:
            if not await event.wait(until - self._io.now()):
                # Renewals ahead are no reason to come back early, but the caller wants to know at the end.
                return self._queues.standing(entry) if renewed else None
            event.clear()
            if entry.released:
                return queueing.hold(self._queues, entry, abandoned=False)
            if entry.interrupted:
                entry.interrupted = False
                if entry.gone or entry.changed:
                    event.set()  # for the next caller that parks
                return None
            renewed = True
            try:
                standing = await queueing.take_news(
                    self._queues, entry, self._io.now() + _NEWS_TIMEOUT
                )
            except RequestFailed:
                entry.gone = True  # so that the next caller that parks finds out what the news was
                entry.wake()
                raise
            if standing.place is Place.GONE:
                self._forget(ticket, entry)
                return None
        return entry.standing()

    def unpark(self, ticket: Ticket) -> None:
        entry = self._entries.get(ticket.id)
        if entry is not None:
            entry.event = None

    def interrupt(self, ticket: Ticket) -> None:
        entry = self._entries.get(ticket.id)
        if entry is not None:
            entry.interrupted = True
            entry.wake()

    @translated
    async def remember(self, ticket: Ticket, text: str, *, keep: float, timeout: float) -> bool:
        until = self._io.now() + timeout
        entry = await self._entry(ticket, until, search=True)
        if entry is not None and not entry.holds:
            parks = entry.event is not None
            await queueing.read_queue(self._queues, entry, until, watch=parks)
        if entry is None or not entry.holds:
            return False
        return await self._notes.remember(entry.path, ticket.name, text, keep, until)

    @translated
    async def recall(self, name: str, *, timeout: float) -> str | None:
        return await self._notes.recall(name, self._io.now() + timeout)

    @translated
    async def inspect(self, name: str, *, limit: int, timeout: float) -> Inspection:
        return await inspect(self._queues, name, limit, self._io.now() + timeout)

    @translated
    async def names(self, pattern: str, *, timeout: float) -> list[str]:
        return await names_in_use(self._queues, pattern, self._io.now() + timeout)

    @translated
    async def evict(self, name: str, *, timeout: float) -> bool:
        return await leaving.evict(self._queues, name, self._io.now() + timeout)

    @translated
    async def write_held(
        self, ticket: Ticket, fence: int, change: requests.Request, *, timeout: float
    ) -> int | None:
        """Change a node of the user's, provided that the ticket is there with its fence. For guards.

        Returns None if it was changed. If the ticket is not there, nothing is changed, and the answer is the
        holder's fence, or 0 if there is no holder.
        """
        until = self._io.now() + timeout
        entry = self._entries.get(ticket.id)
        if entry is not None and entry.fence == fence:
            write = requests.transaction(requests.check(entry.path), change)
            (reply,) = await self._queues.ask(until, write)
            if done(reply):
                return None
            if not missing(reply):
                raise reply[1] if isinstance(reply, list) else reply
        seen = await inspect(self._queues, ticket.name, 0, until)
        return seen.holders[0].fence if seen.holders else 0

    async def diagnose(self, *, timeout: float, probe: bool = False) -> list[Server]:
        servers = await diagnosis.describe(self._settings, self._io, timeout)
        leaders = [at for at, server in enumerate(servers) if server.role in diagnosis.LEADING]
        if probe and len(leaders) == 1:
            with suppress(RequestFailed):  # what the doctor does next fails as well, and says why
                clock = await diagnosis.leader_clock(self._queues, timeout)
                servers[leaders[0]] = servers[leaders[0]]._replace(clock=clock)
        return servers

    async def close(self) -> None:
        self._queues.wake_all()
        await self._transport.close()

    def abandon(self) -> None:
        self._transport.abandon()

    # --- one ticket

    async def _entry(self, ticket: Ticket, until: float, *, search: bool = False) -> Entry | None:
        """What is known of a ticket. If it is not known whether it is in its queue, look for it."""
        entry = self._entries.get(ticket.id)
        if entry is None and (search or ticket.id in self._doubtful):
            entry = await queueing.find(self._queues, ticket, until)
            self._doubtful.discard(ticket.id)
            if entry is not None:
                self._entries[ticket.id] = entry
        return entry

    async def _join(self, ticket: Ticket, if_free: bool, until: float) -> Standing:
        """Join the queue as a new ticket."""
        while True:
            self._doubtful.add(ticket.id)
            try:
                entry, standing = await queueing.join(self._queues, ticket, until)
            except RequestFailed as error:
                if error.outcome == "not applied":
                    self._doubtful.discard(ticket.id)
                raise
            self._entries[ticket.id] = entry
            self._doubtful.discard(ticket.id)
            try:
                self._check_ttl(ticket)  # once more: now the length of the session is known
            except Unsupported:
                await leaving.leave(self._queues, entry, Departure.WITHDRAWN, until)
                self._forget(ticket, entry)
                raise
            if standing is None:
                wait = leaving.refuse if if_free else queueing.take_news
                standing = await wait(self._queues, entry, until)
            if standing.place in (Place.GONE, Place.REFUSED):
                self._forget(ticket, entry)
            if standing.place is not Place.GONE:
                return standing

    def _forget(self, ticket: Ticket, entry: Entry) -> None:
        """The ticket is gone. An entry that has replaced this one stays: a renewal may be told late."""
        self._queues.forget(entry)
        if self._entries.get(ticket.id) is entry:
            del self._entries[ticket.id]

    def _check_ttl(self, ticket: Ticket) -> None:
        if problem := self._too_long(ticket):
            raise Unsupported(problem, name=ticket.name, longest_ttl=self._transport.session)

    def _too_long(self, ticket: Ticket) -> str | None:
        """What is wrong with a ttl: a session that ends before it would take the ticket out too soon."""
        granted = self._transport.session
        if ticket.ttl <= granted:
            return None
        limit = "" if granted >= self._session else ", and raise maxSessionTimeout on the servers"
        return (
            f"{self._where}: a ttl of {ticket.ttl:g} s does not fit into a session of {granted:g} s: "
            f"use a shorter ttl, or ask for a longer session with ?session=SECONDS{limit}"
        )

    def _translated(self, error: RequestFailed, name: str | None) -> EngineError:
        unknown = ": whether the request was carried out is not known" * (
            error.outcome == "unknown"
        )
        return EngineError(f"{self._where}: {error}{unknown}", outcome=error.outcome, name=name)


open_zookeeper = ZooKeeperEngine
"""`zookeeper://` and, with TLS, `zookeepers://`; see docs/engines/zookeeper.md."""
