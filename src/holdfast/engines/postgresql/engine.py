"""The PostgreSQL engine: lease rows, one function call per operation, wake-ups by NOTIFY.

Correctness locks, as long as the server forgets nothing that it has acknowledged: a row lock decides
who is next, the server's clock what has expired, and the fence is committed before anyone sees it.
"""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.core.backoff import Backoff
from holdfast.core.names import matches
from holdfast.core.ticket import Departure, Inspection, Place, Standing, Ticket
from holdfast.core.url import Url
from holdfast.engines.contract import Engine, Traits
from holdfast.engines.postgresql.ears import Ears
from holdfast.engines.postgresql.schema import Statement, array
from holdfast.engines.postgresql.server import Server
from holdfast.engines.postgresql.troubles import NOT_THERE, TRY_AGAIN, translated
from holdfast.engines.postgresql.urls import Target, target_of
from holdfast.engines.sql.answers import inspection_of, standing_of, us
from holdfast.engines.sql.broken import Broken
from holdfast.engines.sql.pool import Pool
from holdfast.io.contract import IO


class PostgresqlEngine(Engine):
    """Queues in tables of a PostgreSQL database."""

    traits = Traits(
        guarantee="correctness",
        fencing=(
            "max(previous + 1, the server's clock in µs), committed before it is used; promoting a "
            "standby that lags behind may hand out one fence twice, so guards compare (fence, id); "
            "falls only if the newest commits are lost and the clock is set back as well"
        ),
        clock="the PostgreSQL server's wall clock",
    )

    def __init__(self, target: Target, io: IO) -> None:
        self._where = target.where
        self._io = io
        server = Server(target, io)
        self._pool = Pool(server.connect, io, target.connections)
        self._ears = Ears(server, self._ask, io)
        self._statements = server.statements

    async def enter(self, ticket: Ticket, *, if_free: bool, timeout: float) -> Standing:
        started = self._io.now()
        ears = self._ears
        waiting = False
        heard = ears.expect(ticket)
        try:
            # A newcomer that may have to wait joins only if it will hear when its turn has come.
            standing = await self._enter(ticket, if_free or not heard, timeout)
            if not heard and standing.place in (Place.WAITING, Place.REFUSED) and not if_free:
                await ears.start(timeout - (self._io.now() - started))
                ears.expect(ticket)
                left = timeout - (self._io.now() - started)
                standing = await self._enter(ticket, if_free, left)
            waiting = standing.place is Place.WAITING
            return standing
        except Broken as error:
            raise translated(error, self._where, ticket.name) from error
        finally:
            if not waiting:
                ears.ignore(ticket.id)

    async def renew(self, tickets: Sequence[Ticket], *, timeout: float) -> list[Standing | None]:
        values = [
            array(ticket.name for ticket in tickets),
            array(ticket.id for ticket in tickets),
            array(us(ticket.ttl) for ticket in tickets),
        ]
        name = tickets[0].name if len(tickets) == 1 else None
        answers = await self._call(self._statements.renew, values, timeout, name)
        return [standing_of(answer) for answer in answers]

    async def leave(
        self, ticket: Ticket, *, timeout: float, departure: Departure = Departure.RELEASED
    ) -> bool:
        values = [ticket.name, ticket.id, "012"[departure]]
        return await self._call(self._statements.leave, values, timeout, ticket.name) == ["t"]

    async def park(self, ticket: Ticket, until: float) -> Standing | None:
        try:
            news = await self._ears.hear(ticket.id, until - self._io.now())
        except Broken as error:
            self.unpark(ticket)
            raise translated(error, self._where, ticket.name) from error
        return None if news is None else standing_of(news)

    def unpark(self, ticket: Ticket) -> None:
        self._ears.ignore(ticket.id)

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
        await self._ears.close()
        self._pool.close()

    # --- one request

    async def _enter(self, ticket: Ticket, if_free: bool, timeout: float) -> Standing:
        values = [
            ticket.name,
            ticket.id,
            us(ticket.ttl),
            self._ears.channel,
            ticket.owner.pack(),
            "t" if if_free else "f",
        ]
        (answer,) = await self._ask(self._statements.enter, values, timeout)
        return standing_of(answer)

    async def _call(
        self, statement: Statement, values: Sequence[str], timeout: float, name: str | None
    ) -> list[str]:
        try:
            return await self._ask(statement, values, timeout)
        except Broken as error:
            raise translated(error, self._where, name) from error

    async def _ask(self, statement: Statement, values: Sequence[str], timeout: float) -> list[str]:
        """Ask once; again only if it was certainly not carried out, and there is hope and time."""
        io = self._io
        started = io.now()
        missed = False
        backoff: Backoff | None = None
        while True:
            wire = await self._pool.take(timeout - (io.now() - started))
            try:
                left = timeout - (io.now() - started)
                if left <= 0:
                    raise Broken(f"no time was left to ask, of {timeout:.3g} s", "not applied")
                return await wire.call(statement, values, left)
            except Broken as error:
                if error.code in NOT_THERE and not missed:
                    missed = wire.broken = True  # the next connection has it made anew
                elif error.code not in TRY_AGAIN:
                    raise
                backoff = backoff or Backoff(0.002, 0.1, io.random)
                pause = backoff.next()
                if io.now() - started + pause >= timeout:
                    raise
            finally:
                self._pool.give(wire)
            await io.event().wait(pause)


def open_postgresql(url: Url, io: IO) -> PostgresqlEngine:
    """`postgresql://user:password@host:5432/database`; see docs/engines/postgresql.md."""
    return PostgresqlEngine(target_of(url), io)
