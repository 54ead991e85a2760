"""MySQL's own GET_LOCK behind the same contract: a session is a ticket.

Each ticket, holding or waiting, has a connection of its own: the lock lasts as long as that does, and
whoever dies lets go at once. Nothing expires, so a holder that is only stopped keeps the lock.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from hashlib import blake2b

from holdfast.core.names import matches
from holdfast.core.ticket import Departure, Inspection, Place, Standing, Ticket
from holdfast.core.url import Url
from holdfast.engines.contract import Engine, Traits
from holdfast.engines.mysql.schema import SessionCalls, text_of
from holdfast.engines.mysql.server import Server
from holdfast.engines.mysql.troubles import NOT_THERE, translated
from holdfast.engines.mysql.urls import Target, target_of
from holdfast.engines.mysql.wire import Wire
from holdfast.engines.sql.answers import inspection_of, standing_of
from holdfast.engines.sql.broken import Broken
from holdfast.engines.sql.pool import Pool
from holdfast.io.contract import IO

_MANY = 10_000

_WAITING = Standing(Place.WAITING)
_GONE = Standing(Place.GONE)


def hash_of(scope: str, name: str) -> str:
    """What the server locks: 128 bits as hex digits. That no two names share one is checked there.

    The server has one set of such locks for all of its databases: hence the scope.
    """
    return blake2b(f"{scope} {name}".encode(), digest_size=16).hexdigest()


class _Seat:
    """A ticket's session."""

    __slots__ = ("granted", "parked", "standing", "wire")

    def __init__(self, wire: Wire, standing: Standing) -> None:
        self.wire = wire
        self.standing = standing
        self.granted = False
        """Whether the server has said that the lock is ours, after we waited for it."""
        self.parked = False


class GetLockEngine(Engine):
    """Session locks of a MySQL or MariaDB server."""

    traits = Traits(
        guarantee="efficiency",
        fencing=(
            "max(previous + 1, the server's clock in µs) in a row that is committed before the lock "
            "is used; promoting a replica that lags behind may hand out one fence twice"
        ),
        clock="none: a lock lasts as long as its connection",
        expiring=False,
        numbered=False,
    )

    def __init__(self, target: Target, io: IO) -> None:
        self._where = target.where
        self._scope = f"{target.settings['database']} {target.prefix}"
        self._io = io
        self._server = Server(target, io, patient=True)
        self._pool = Pool(self._server.connect, io, _MANY)
        self._calls = SessionCalls(target.prefix)
        self._mutex = threading.Lock()  # never held across an await, so it serves every io
        self._seats: dict[str, _Seat] = {}

    async def enter(self, ticket: Ticket, *, if_free: bool, timeout: float) -> Standing:
        deadline = self._io.now() + timeout
        try:
            seat = self._seats.get(ticket.id)
            if seat is None:
                return await self._join(ticket, if_free, deadline)
            if seat.standing.place is Place.ADMITTED:
                return (await self._heartbeat([ticket], deadline))[0]
            return await self._look(ticket, seat, deadline)
        except Broken as error:
            raise translated(error, self._where, ticket.name) from error

    async def renew(self, tickets: Sequence[Ticket], *, timeout: float) -> list[Standing | None]:
        try:
            return [*await self._heartbeat(tickets, self._io.now() + timeout)]
        except Broken as error:
            raise translated(error, self._where, None) from error

    async def leave(
        self, ticket: Ticket, *, timeout: float, departure: Departure = Departure.RELEASED
    ) -> bool:
        deadline = self._io.now() + timeout
        seat = self._drop(ticket.id)
        try:
            if seat is not None and seat.standing.place is Place.ADMITTED:
                hash = hash_of(self._scope, ticket.name)
                sql = self._calls.leave(ticket.name, ticket.id, hash, departure)
                try:
                    there = text_of(await seat.wire.call(sql, timeout)) == ["1"]
                    seat.wire.broken = not there  # not our session: don't use it again
                    return there
                finally:
                    self._pool.give(seat.wire)
            if seat is not None:
                self._hang_up(seat)
            # The server does not notice by itself that one who waits is gone.
            return await self._ask(self._calls.end(ticket.id, departure), deadline) == ["1"]
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
        sql = self._calls.inspect(name, min(limit, 2**31 - 1))
        return inspection_of(name, await self._call(sql, timeout, name))

    async def names(self, pattern: str, *, timeout: float) -> list[str]:
        names = await self._call(self._calls.names(), timeout, None)
        return sorted(name for name in names if matches(name, pattern))

    async def evict(self, name: str, *, timeout: float) -> bool:
        return await self._call(self._calls.evict(name), timeout, name) == ["1"]

    async def close(self) -> None:
        for id in list(self._seats):
            seat = self._drop(id)
            if seat is not None:
                self._hang_up(seat)
        self._pool.close()

    # --- sessions

    async def _join(self, ticket: Ticket, if_free: bool, deadline: float) -> Standing:
        hash = hash_of(self._scope, ticket.name)
        sql = self._calls.enter(ticket.name, ticket.id, hash, ticket.owner.pack(), if_free)
        wire = await self._pool.take(deadline - self._io.now())
        try:
            (answer,) = await self._asked(wire, sql, deadline)
            standing = standing_of(answer)
            if standing.place is Place.WAITING:
                await wire.begin(self._calls.wait(hash), deadline - self._io.now())
        except BaseException:
            # An error rolls back what was written, but not the lock: that ends with the session.
            wire.close()
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
            hash = hash_of(self._scope, ticket.name)
            sql = self._calls.admit(ticket.name, ticket.id, hash, ticket.owner.pack())
            (answer,) = text_of(await seat.wire.call(sql, deadline - self._io.now()))
        except BaseException:
            if self._drop(ticket.id) is seat:
                self._discard(seat)
            raise
        seat.standing = standing_of(answer)
        return seat.standing

    async def _heartbeat(self, tickets: Sequence[Ticket], deadline: float) -> list[Standing]:
        """One question for all of them: does the server still see our sessions with their locks?"""
        sql = self._calls.renew(ticket.id for ticket in tickets)
        (answer,) = await self._ask(sql, deadline)
        standings = [standing_of(line) for line in answer.splitlines()]
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
        seat.wire.close()
        self._pool.give(seat.wire)

    # --- one request

    async def _call(self, sql: str, timeout: float, name: str | None) -> list[str]:
        try:
            return await self._ask(sql, self._io.now() + timeout)
        except Broken as error:
            raise translated(error, self._where, name) from error

    async def _ask(self, sql: str, deadline: float) -> list[str]:
        wire = await self._pool.take(deadline - self._io.now())
        try:
            return await self._asked(wire, sql, deadline)
        finally:
            self._pool.give(wire)

    async def _asked(self, wire: Wire, sql: str, deadline: float) -> list[str]:
        """Ask once; again only if what we rely on was not there."""
        try:
            return text_of(await wire.call(sql, deadline - self._io.now()))
        except Broken as error:
            if error.code not in NOT_THERE:
                raise
            await self._server.install(wire, deadline - self._io.now(), sessions=True)
            return text_of(await wire.call(sql, deadline - self._io.now()))


def open_getlock(url: Url, io: IO) -> GetLockEngine:
    """`mysql+getlock://user:password@host:3306/database`; see docs/engines/mysql.md."""
    return GetLockEngine(target_of(url), io)
