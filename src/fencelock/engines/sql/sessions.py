"""The engine over a database's own session locks: a session is a ticket.

Each ticket, holding or waiting, has a connection of its own: the lock lasts as long as that does, and
whoever dies lets go at once. Nothing expires, so a holder that is only stopped keeps the lock.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Generic, TypeVar

from fencelock.core.ticket import Departure, Owner, Place, Standing, Ticket
from fencelock.engines.sql.answers import lines_of, standing_of
from fencelock.engines.sql.broken import DatabaseFailed
from fencelock.engines.sql.database import Request, Server, SessionCalls, SessionWire, Troubles
from fencelock.engines.sql.engine import SqlEngine
from fencelock.io.contract import IO

S = TypeVar("S", bound=SessionWire)

_MANY = 10_000
"""Connections: one for each ticket, however many there are."""

_WAITING = Standing(Place.WAITING)
_GONE = Standing(Place.GONE)


class _Seat(Generic[S]):
    """A ticket's session."""

    __slots__ = ("granted", "owner", "standing", "used", "wire")

    def __init__(self, wire: S, standing: Standing, owner: Owner) -> None:
        self.wire = wire
        self.standing = standing
        self.owner = owner
        """Whom the server knows as its owner."""
        self.granted = False
        """Whether the server has said that the lock is ours, after we waited for it."""
        self.used = False
        """Whether somebody waits for an answer there: nobody else may close it then."""


class SessionsEngine(SqlEngine[S]):
    """Session locks."""

    _calls: SessionCalls

    def __init__(
        self, where: str, io: IO, server: Server[S], heartbeat: float, troubles: Troubles
    ) -> None:
        super().__init__(where, io, server, _MANY, troubles)
        self.traits = self.traits._replace(heartbeat=heartbeat)
        self._mutex = threading.Lock()  # never held across an await, so it serves every io
        self._seats: dict[str, _Seat[S]] = {}
        self._closed = False

    async def enter(self, ticket: Ticket, *, if_free: bool, timeout: float) -> Standing:
        deadline = self._io.now() + timeout
        try:
            seat = self._seats.get(ticket.id)
            if seat is None:
                return await self._join(ticket, if_free, deadline)
            admitted, renamed = seat.standing.place is Place.ADMITTED, seat.owner != ticket.owner
            if admitted or renamed:
                calls = self._calls
                request = calls.rename(ticket) if renamed else calls.renew([ticket])
                (standing,) = await self._heartbeat(request, [ticket], timeout)
                seat.owner = ticket.owner
                if admitted:
                    return standing
            return await self._look(ticket, seat, deadline)
        except DatabaseFailed as error:
            raise self._troubles.translated(error, self._where, ticket.name) from error

    async def renew(self, tickets: Sequence[Ticket], *, timeout: float) -> list[Standing | None]:
        try:
            return [*await self._heartbeat(self._calls.renew(tickets), tickets, timeout)]
        except DatabaseFailed as error:
            name = tickets[0].name if len(tickets) == 1 else None
            raise self._troubles.translated(error, self._where, name) from error

    async def leave(
        self, ticket: Ticket, *, timeout: float, departure: Departure = Departure.RELEASED
    ) -> bool:
        seat = self._dismiss(ticket.id)
        try:
            if seat is not None and seat.standing.place is Place.ADMITTED:
                return await self._release(ticket, seat.wire, departure, timeout)
            if seat is not None:
                self._discard(seat)
            # The server does not notice by itself that one who waits is gone.
            return await self._ask(self._calls.end(ticket, departure), timeout) == ["1"]
        except DatabaseFailed as error:
            raise self._troubles.translated(error, self._where, ticket.name) from error

    async def park(self, ticket: Ticket, until: float) -> Standing | None:
        seat = self._seats.get(ticket.id)
        if seat is None or seat.granted:
            return None
        try:
            with self._using(ticket.id, seat):
                seat.granted = await seat.wire.answered(until - self._io.now())
        except DatabaseFailed as error:
            raise self._troubles.translated(error, self._where, ticket.name) from error
        return None

    def interrupt(self, ticket: Ticket) -> None:
        seat = self._seats.get(ticket.id)
        if seat is not None:
            seat.wire.interrupt()

    async def close(self) -> None:
        with self._mutex:
            self._closed = True
            ids = list(self._seats)
        for id in ids:
            seat = self._dismiss(id)
            if seat is not None:
                self._discard(seat)
        self._pool.close()

    # --- sessions

    async def _join(self, ticket: Ticket, if_free: bool, deadline: float) -> Standing:
        wire = await self._pool.take(deadline - self._io.now())
        try:
            (answer,) = await self._sent(wire, self._calls.enter(ticket, if_free), deadline)
            standing = standing_of(answer)
            if standing.place is Place.WAITING:
                await wire.begin(self._calls.wait(ticket), deadline - self._io.now())
            if standing.place is not Place.REFUSED:
                self._take_seat(ticket.id, _Seat(wire, standing, ticket.owner))
                return standing
        except BaseException:
            # An error rolls back what was written, but not the lock: that ends with the session.
            wire.close()
            self._pool.give(wire)
            raise
        self._pool.give(wire)
        return standing

    async def _sent(self, wire: S, request: Request, deadline: float) -> list[str]:
        """Ask in this very session."""
        try:
            return await wire.call(request, deadline - self._io.now())
        except DatabaseFailed as error:
            if error.code not in self._troubles.not_there:
                raise
            return await self._once_installed(wire, request, deadline)

    async def _look(self, ticket: Ticket, seat: _Seat[S], deadline: float) -> Standing:
        """Whether one that waited has the lock now; then it gets its fence."""
        with self._using(ticket.id, seat):
            if not seat.granted:
                seat.granted = await seat.wire.answered(0.0)
            if not seat.granted:
                return _WAITING
            request = self._calls.admit(ticket)
            (answer,) = await seat.wire.call(request, deadline - self._io.now())
            seat.standing = standing_of(answer)
        return seat.standing

    async def _release(self, ticket: Ticket, wire: S, departure: Departure, timeout: float) -> bool:
        deadline = self._io.now() + timeout
        released = False
        try:
            request = self._calls.leave(ticket, departure)
            released = await self._sent(wire, request, deadline) == ["1"]
        except DatabaseFailed as error:
            raise DatabaseFailed(
                str(error), "unknown", error.code
            ) from error  # closing it releases, too
        finally:
            if not released:
                wire.close()  # nobody must get a session that may still have the lock
            self._pool.give(wire)
        return released

    async def _heartbeat(
        self, request: Request, tickets: Sequence[Ticket], timeout: float
    ) -> list[Standing]:
        """One question for all of them: does the server still see our sessions with their locks?"""
        answers = await self._ask(request, timeout)
        standings = [standing_of(line) for line in lines_of(answers)]
        return [self._believed(one, seen) for one, seen in zip(tickets, standings, strict=True)]

    def _believed(self, ticket: Ticket, seen: Standing) -> Standing:
        seat = self._seats.get(ticket.id)
        if seat is None or seat.wire.broken:
            return _GONE
        if seen.place is Place.ADMITTED and seat.wire.is_cut():
            return _GONE
        return seen

    # --- seats

    def _take_seat(self, id: str, seat: _Seat[S]) -> None:
        with self._mutex:
            if self._closed:
                raise DatabaseFailed("the client was closed", "not applied")
            self._seats[id] = seat

    @contextmanager
    def _using(self, id: str, seat: _Seat[S]) -> Iterator[None]:
        """Whoever ends the session meanwhile leaves it to us to close it; if we fail, it ends."""
        with self._mutex:
            if self._seats.get(id) is not seat:
                raise DatabaseFailed("the client was closed", "not applied")
            seat.used = True
        failed = True
        try:
            yield
            failed = False
        finally:
            with self._mutex:
                seat.used = False
                if failed and self._seats.get(id) is seat:
                    del self._seats[id]
                over = self._seats.get(id) is not seat
            if over:
                self._discard(seat)

    def _dismiss(self, id: str) -> _Seat[S] | None:
        """Take a seat away; it is ours then, unless somebody uses it, who is told to end it."""
        with self._mutex:
            seat = self._seats.pop(id, None)
            if seat is not None and seat.used:
                seat.wire.hang_up()
                return None
            return seat

    def _discard(self, seat: _Seat[S]) -> None:
        seat.wire.close()
        self._pool.give(seat.wire)
