"""PostgreSQL's own advisory locks behind the same contract: a session is a ticket.

Each ticket, holding or waiting, has a connection of its own: the lock lasts as long as that does, and
whoever dies lets go at once. Nothing expires, so a holder that is only stopped keeps the lock.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from hashlib import blake2b

from holdfast.core.errors import Unsupported
from holdfast.core.names import matches
from holdfast.core.ticket import Departure, Inspection, Place, Standing, Ticket
from holdfast.core.url import Url
from holdfast.engines.contract import Engine, Traits
from holdfast.engines.postgresql.schema import SessionStatements, Statement, array
from holdfast.engines.postgresql.server import Server
from holdfast.engines.postgresql.troubles import translated
from holdfast.engines.postgresql.urls import Target, target_of
from holdfast.engines.postgresql.wire import Wire
from holdfast.engines.sql.answers import inspection_of, standing_of
from holdfast.engines.sql.broken import Broken
from holdfast.engines.sql.pool import Pool
from holdfast.io.contract import IO

_MANY = 10_000

_WAITING = Standing(Place.WAITING)
_GONE = Standing(Place.GONE)


def key_of(name: str) -> str:
    """What the server locks: 64 bits of a hash. That no two names share one is checked there."""
    return str(int.from_bytes(blake2b(name.encode(), digest_size=8).digest(), signed=True))


class _Seat:
    """A ticket's session."""

    __slots__ = ("granted", "parked", "standing", "wire")

    def __init__(self, wire: Wire, standing: Standing) -> None:
        self.wire = wire
        self.standing = standing
        self.granted = False
        """Whether the server has said that the lock is ours, after we waited for it."""
        self.parked = False


class AdvisoryEngine(Engine):
    """Session locks of a PostgreSQL database."""

    traits = Traits(
        guarantee="efficiency",
        fencing=(
            "max(previous + 1, the server's clock in µs) in a row that is committed before the lock "
            "is used; promoting a standby that lags behind may hand out one fence twice"
        ),
        clock="none: a lock lasts as long as its connection",
        expiring=False,
        numbered=False,
    )

    def __init__(self, target: Target, io: IO) -> None:
        self._where = target.where
        self._io = io
        self._server = Server(target._replace(patient=True), io)
        self._pool = Pool(self._server.connect, io, _MANY)
        self._statements = SessionStatements(target.schema)
        self._mutex = threading.Lock()  # never held across an await, so it serves every io
        self._seats: dict[str, _Seat] = {}

    async def enter(self, ticket: Ticket, *, if_free: bool, timeout: float) -> Standing:
        deadline = self._io.now() + timeout
        try:
            seat = self._seats.get(ticket.id)
            if seat is None:
                return await self._join(ticket, if_free, deadline)
            if seat.standing.place is Place.ADMITTED:
                return (await self._heartbeat([ticket], deadline - self._io.now()))[0]
            return await self._look(ticket, seat, deadline)
        except Broken as error:
            raise translated(error, self._where, ticket.name) from error

    async def renew(self, tickets: Sequence[Ticket], *, timeout: float) -> list[Standing | None]:
        try:
            return [*await self._heartbeat(tickets, timeout)]
        except Broken as error:
            raise translated(error, self._where, None) from error

    async def leave(
        self, ticket: Ticket, *, timeout: float, departure: Departure = Departure.RELEASED
    ) -> bool:
        deadline = self._io.now() + timeout
        seat = self._drop(ticket.id)
        try:
            if seat is not None and seat.standing.place is Place.ADMITTED:
                values = [ticket.name, ticket.id, key_of(ticket.name), "012"[departure]]
                try:
                    answer = await seat.wire.call(self._statements.leave, values, timeout)
                    seat.wire.broken = answer != ["t"]  # not our session: don't use it again
                    return answer == ["t"]
                finally:
                    self._pool.give(seat.wire)
            if seat is not None:
                self._hang_up(seat)
            # The server does not notice by itself that one who waits is gone.
            values = [ticket.id, "012"[departure]]
            return await self._ask(self._statements.end, values, deadline) == ["t"]
        except Broken as error:
            raise translated(error, self._where, ticket.name) from error

    async def park(self, ticket: Ticket, until: float) -> Standing | None:
        with self._mutex:
            seat = self._seats.get(ticket.id)
            if seat is None or seat.granted:
                return None
            seat.parked = True
        try:
            seat.granted = await seat.wire.answered(until - self._io.now())
        except Broken as error:
            self._drop(ticket.id)
            raise translated(error, self._where, ticket.name) from error
        except BaseException:
            self._drop(ticket.id)
            raise
        finally:
            with self._mutex:
                seat.parked = False
                dropped = self._seats.get(ticket.id) is not seat
            if dropped:
                self._discard(seat)
        return None

    async def inspect(self, name: str, *, limit: int, timeout: float) -> Inspection:
        values = [name, str(min(limit, 2**31 - 1))]
        return inspection_of(
            name, await self._call(self._statements.inspect, values, timeout, name)
        )

    async def names(self, pattern: str, *, timeout: float) -> list[str]:
        names = await self._call(self._statements.names, [], timeout, None)
        return sorted(name for name in names if matches(name, pattern))

    async def evict(self, name: str, *, timeout: float) -> bool:
        return await self._call(self._statements.evict, [name], timeout, name) == ["t"]

    async def close(self) -> None:
        for id in list(self._seats):
            seat = self._drop(id)
            if seat is not None:
                self._hang_up(seat)
        self._pool.close()

    # --- sessions

    async def _join(self, ticket: Ticket, if_free: bool, deadline: float) -> Standing:
        key = key_of(ticket.name)
        values = [ticket.name, ticket.id, key, ticket.owner.pack(), "t" if if_free else "f"]
        wire = await self._take(deadline)
        try:
            left = deadline - self._io.now()
            (answer,) = await wire.call(self._statements.enter, values, left)
            standing = standing_of(answer)
            if standing.place is Place.WAITING:
                await wire.begin(self._statements.wait, [key], deadline - self._io.now())
        except BaseException:
            # An error rolls back what was written, but not the lock: that ends with the session.
            wire.broken = True
            self._pool.give(wire)
            raise
        if standing.place is Place.REFUSED:
            self._pool.give(wire)
        else:
            with self._mutex:
                self._seats[ticket.id] = _Seat(wire, standing)
        return standing

    async def _look(self, ticket: Ticket, seat: _Seat, deadline: float) -> Standing:
        """Whether one that waited has the lock now; then it gets its fence."""
        try:
            if not seat.granted:
                seat.granted = await seat.wire.answered(0.0)
            if not seat.granted:
                return _WAITING
            values = [ticket.name, ticket.id, key_of(ticket.name), ticket.owner.pack()]
            left = deadline - self._io.now()
            (answer,) = await seat.wire.call(self._statements.admit, values, left)
        except BaseException:
            if self._drop(ticket.id) is seat:
                self._discard(seat)
            raise
        seat.standing = standing_of(answer)
        return seat.standing

    async def _heartbeat(self, tickets: Sequence[Ticket], timeout: float) -> list[Standing]:
        """One question for all of them: does the server still see our sessions with their locks?"""
        ids = array(ticket.id for ticket in tickets)
        deadline = self._io.now() + timeout
        answers = await self._ask(self._statements.renew, [ids], deadline)
        standings = [standing_of(answer) for answer in answers]
        return [self._believed(one, seen) for one, seen in zip(tickets, standings, strict=True)]

    def _believed(self, ticket: Ticket, seen: Standing) -> Standing:
        seat = self._seats.get(ticket.id)
        if seat is None or seat.wire.broken:
            return _GONE
        if seen.place is Place.ADMITTED and seat.wire.is_cut():
            return _GONE
        return seen

    def _drop(self, id: str) -> _Seat | None:
        with self._mutex:
            return self._seats.pop(id, None)

    def _hang_up(self, seat: _Seat) -> None:
        """End a session; if a thread waits for it, that one closes it."""
        with self._mutex:
            parked = seat.parked
            if parked:
                seat.wire.hang_up()
        if not parked:
            self._discard(seat)

    def _discard(self, seat: _Seat) -> None:
        if not seat.wire.broken:
            seat.wire.broken = True
            self._pool.give(seat.wire)

    # --- one request

    async def _take(self, deadline: float) -> Wire:
        wire = await self._pool.take(deadline - self._io.now())
        if self._server.pooled:
            wire.broken = True
            self._pool.give(wire)
            raise Unsupported(
                f"{self._where}: a connection pooler is in between, and session locks need a session: "
                "connect to the server itself, or use postgresql://"
            )
        return wire

    async def _call(
        self, statement: Statement, values: Sequence[str], timeout: float, name: str | None
    ) -> list[str]:
        try:
            return await self._ask(statement, values, self._io.now() + timeout)
        except Broken as error:
            raise translated(error, self._where, name) from error

    async def _ask(self, statement: Statement, values: Sequence[str], deadline: float) -> list[str]:
        wire = await self._take(deadline)
        try:
            return await wire.call(statement, values, deadline - self._io.now())
        finally:
            self._pool.give(wire)


def open_advisory(url: Url, io: IO) -> AdvisoryEngine:
    """`postgresql+advisory://user:password@host:5432/database`; see docs/engines/postgresql.md."""
    return AdvisoryEngine(target_of(url), io)
