"""The engine over a database's own session locks: each ticket is a session.

Each ticket, holding or waiting, has a connection of its own. The lock lasts as long as that connection:
when a process dies, the server frees the lock at once. Nothing expires, so a stopped holder keeps the lock.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Generic

from fencelock.core.ticket import Departure, Owner, Place, Standing, Ticket
from fencelock.core.url import Url
from fencelock.engines.contract import Traits
from fencelock.engines.failure import RequestFailed, translated
from fencelock.engines.sql.database import Errors, Server, W, client_closed
from fencelock.engines.sql.engine import SqlEngine
from fencelock.engines.sql.requests import Request, SessionRequests, lines_of, standing_of
from fencelock.io.contract import IO

_MAX_CONNECTIONS = 10_000
"""Practically no limit: each ticket needs a connection."""

_GONE = Standing(Place.GONE)


def session_traits(copy: str) -> Traits:
    """The traits of session locks. `copy` is what the database calls a server that replicates it."""
    return Traits(
        guarantee="efficiency",
        fencing=(
            "max(previous + 1, the server's clock in µs) in a row that is committed before the lock "
            f"is used; after a lagging {copy} is promoted, a fence may be given twice, or be lower if its "
            "clock is behind"
        ),
        clock="none: a lock lasts as long as its connection",
        fenced_while_waiting=False,
    )


def heartbeat_of(url: Url) -> float:
    """The option `heartbeat`: how often the engine checks that sessions live, in seconds."""
    heartbeat = url.seconds("heartbeat", 10.0)
    if not 0.05 <= heartbeat <= 3600:
        raise ValueError(f"{url}: option heartbeat must be from 0.05 to 3600 seconds")
    return heartbeat


class _Session(Generic[W]):
    """The session of a ticket."""

    __slots__ = ("granted", "in_use", "owner", "standing", "wire")

    def __init__(self, wire: W, standing: Standing, owner: Owner) -> None:
        self.wire = wire
        self.standing = standing
        self.owner = owner
        """The owner that the server has stored."""
        self.granted = False
        """Whether the server has given us the lock after a wait."""
        self.in_use = False
        """Whether a caller waits for an answer on the connection: only that caller may close it."""


class SessionsEngine(SqlEngine[W]):
    """Session locks."""

    _requests: SessionRequests

    def __init__(
        self, where: str, io: IO, server: Server[W], heartbeat: float, errors: Errors
    ) -> None:
        super().__init__(where, io, server, _MAX_CONNECTIONS, errors)
        self.traits = self.traits._replace(heartbeat=heartbeat)
        self._mutex = threading.Lock()  # never held across an await, so it serves every io
        self._sessions: dict[str, _Session[W]] = {}
        self._closed = False

    @translated
    async def enter(self, ticket: Ticket, *, if_free: bool, timeout: float) -> Standing:
        deadline = self._io.now() + timeout
        session = self._sessions.get(ticket.id)
        if session is None:
            return await self._join(ticket, if_free, deadline)
        admitted = session.standing.place is Place.ADMITTED
        renamed = session.owner != ticket.owner
        if admitted or renamed:
            requests = self._requests
            request = requests.rename(ticket) if renamed else requests.renew([ticket])
            (standing,) = await self._heartbeat(request, [ticket], timeout)
            session.owner = ticket.owner
            if admitted:
                return standing
        return await self._look_again(ticket, session, deadline)

    @translated
    async def renew(self, tickets: Sequence[Ticket], *, timeout: float) -> list[Standing | None]:
        return [*await self._heartbeat(self._requests.renew(tickets), tickets, timeout)]

    @translated
    async def leave(
        self, ticket: Ticket, *, timeout: float, departure: Departure = Departure.RELEASED
    ) -> bool:
        session = self._remove(ticket.id)
        if session is not None and session.standing.place is Place.ADMITTED:
            return await self._release(ticket, session.wire, departure, timeout)
        if session is not None:
            self._discard(session)
        # The server does not notice by itself that the client of a waiting session is gone.
        return await self._ask(self._requests.end(ticket, departure), timeout) == ["1"]

    @translated
    async def park(self, ticket: Ticket, until: float) -> Standing | None:
        session = self._sessions.get(ticket.id)
        if session is None or session.granted:
            return None
        with self._using(ticket.id, session):
            session.granted = await session.wire.answered(until - self._io.now())
        return None

    def interrupt(self, ticket: Ticket) -> None:
        session = self._sessions.get(ticket.id)
        if session is not None:
            session.wire.interrupt()

    async def close(self) -> None:
        with self._mutex:
            self._closed = True
            ids = list(self._sessions)
        for id in ids:
            session = self._remove(id)
            if session is not None:
                self._discard(session)
        self._pool.close()

    # --- requests in a ticket's own session

    async def _join(self, ticket: Ticket, if_free: bool, deadline: float) -> Standing:
        wire = await self._pool.take(deadline - self._io.now())
        try:
            (answer,) = await self._ask_in(wire, self._requests.enter(ticket, if_free), deadline)
            standing = standing_of(answer)
            if standing.place is Place.WAITING:
                await wire.begin(self._requests.wait(ticket), deadline - self._io.now())
            if standing.place is not Place.REFUSED:
                self._add(ticket.id, _Session(wire, standing, ticket.owner))
                return standing
        except BaseException:
            # An error rolls back the rows, but not the lock: only the end of the session frees it.
            wire.close()
            self._pool.give(wire)
            raise
        self._pool.give(wire)
        return standing

    async def _look_again(self, ticket: Ticket, session: _Session[W], deadline: float) -> Standing:
        """Check whether a waiting ticket has the lock now. If so, get its fence."""
        with self._using(ticket.id, session):
            if not session.granted:
                session.granted = await session.wire.answered(0.0)
            if not session.granted:
                return Standing(Place.WAITING)
            request = self._requests.admit(ticket)
            (answer,) = await session.wire.call(request, deadline - self._io.now())
            session.standing = standing_of(answer)
        return session.standing

    async def _release(self, ticket: Ticket, wire: W, departure: Departure, timeout: float) -> bool:
        deadline = self._io.now() + timeout
        released = False
        try:
            request = self._requests.leave(ticket, departure)
            released = await self._ask_in(wire, request, deadline) == ["1"]
        except RequestFailed as error:
            # Unknown in any case: to close the connection, below, releases the lock, too.
            raise RequestFailed(str(error), "unknown", error.code) from error
        finally:
            if not released:
                wire.close()  # the next ticket must not get a session that may still have the lock
            self._pool.give(wire)
        return released

    async def _heartbeat(
        self, request: Request, tickets: Sequence[Ticket], timeout: float
    ) -> list[Standing]:
        """Ask once for all tickets: does the server still see our sessions with their locks?"""
        answers = await self._ask(request, timeout)
        standings = [standing_of(line) for line in lines_of(answers)]
        return [
            self._checked(ticket, seen) for ticket, seen in zip(tickets, standings, strict=True)
        ]

    def _checked(self, ticket: Ticket, seen: Standing) -> Standing:
        """What the server sees of a ticket, unless we know that its connection is lost."""
        session = self._sessions.get(ticket.id)
        if session is None or session.wire.broken:
            return _GONE
        return _GONE if seen.place is Place.ADMITTED and session.wire.is_cut() else seen

    # --- the table of sessions

    def _add(self, id: str, session: _Session[W]) -> None:
        with self._mutex:
            if self._closed:
                raise client_closed()
            self._sessions[id] = session

    @contextmanager
    def _using(self, id: str, session: _Session[W]) -> Iterator[None]:
        """Use the connection of a session. Discards the session if this fails, or if it was removed."""
        with self._mutex:
            if self._sessions.get(id) is not session:
                raise client_closed()
            session.in_use = True
        failed = True
        try:
            yield
            failed = False
        finally:
            with self._mutex:
                session.in_use = False
                if failed and self._sessions.get(id) is session:
                    del self._sessions[id]
                removed = self._sessions.get(id) is not session
            if removed:
                self._discard(session)

    def _remove(self, id: str) -> _Session[W] | None:
        """Take a session out of the table. Returns None if a caller uses it: that caller discards it."""
        with self._mutex:
            session = self._sessions.pop(id, None)
            if session is not None and session.in_use:
                session.wire.hang_up()
                return None
            return session

    def _discard(self, session: _Session[W]) -> None:
        session.wire.close()
        self._pool.give(session.wire)
