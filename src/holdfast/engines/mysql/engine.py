"""The MySQL and MariaDB engine: lease rows, one procedure call per operation.

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
from holdfast.engines.mysql.ears import Ears
from holdfast.engines.mysql.schema import calls, text_of
from holdfast.engines.mysql.server import Server
from holdfast.engines.mysql.troubles import NOT_THERE, TRY_AGAIN, translated
from holdfast.engines.mysql.urls import Target, target_of
from holdfast.engines.sql.answers import inspection_of, standing_of, us
from holdfast.engines.sql.broken import Broken
from holdfast.engines.sql.pool import Pool
from holdfast.io.contract import IO

_AGAIN = tuple(map(str, TRY_AGAIN))


class MysqlEngine(Engine):
    """Queues in tables of a MySQL or MariaDB database."""

    traits = Traits(
        guarantee="correctness",
        fencing=(
            "max(previous + 1, the server's clock in µs), committed before it is used; promoting a "
            "replica that lags behind may hand out one fence twice, so guards compare (fence, id); "
            "falls only if the newest commits are lost and the clock is set back as well"
        ),
        clock="the MySQL server's wall clock",
    )

    def __init__(self, target: Target, io: IO) -> None:
        self._where = target.where
        self._io = io
        self._calls = calls(target.prefix)
        self._server = Server(target, io)
        self._pool = Pool(self._server.connect, io, target.connections)
        self._ears = Ears(self._server, self._calls, io)

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
        # In one order for everybody, so that two renewals can't deadlock.
        order = sorted(range(len(tickets)), key=lambda at: tickets[at].name.encode())
        packed = ((tickets[at].name, tickets[at].id, us(tickets[at].ttl)) for at in order)
        name = tickets[0].name if len(tickets) == 1 else None
        (answer,) = await self._call(self._calls.renew(packed), timeout, name)
        standings: list[Standing | None] = [None] * len(tickets)
        for at, line in zip(order, answer.splitlines(), strict=True):
            standings[at] = standing_of(line)
        return standings

    async def leave(
        self, ticket: Ticket, *, timeout: float, departure: Departure = Departure.RELEASED
    ) -> bool:
        sql = self._calls.leave(ticket.name, ticket.id, departure)
        return await self._call(sql, timeout, ticket.name) == ["1"]

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
        sql = self._calls.inspect(name, min(limit, 2**31 - 1))
        return inspection_of(name, await self._call(sql, timeout, name))

    async def names(self, pattern: str, *, timeout: float) -> list[str]:
        names = await self._call(self._calls.names(), timeout, None)
        return sorted(name for name in names if matches(name, pattern))

    async def evict(self, name: str, *, timeout: float) -> bool:
        return await self._call(self._calls.evict(name), timeout, name) == ["1"]

    async def close(self) -> None:
        await self._ears.close()
        self._pool.close()

    # --- one request

    async def _enter(self, ticket: Ticket, if_free: bool, timeout: float) -> Standing:
        sql = self._calls.enter(
            ticket.name,
            ticket.id,
            us(ticket.ttl),
            self._ears.channel,
            ticket.owner.pack(),
            if_free,
        )
        (answer,) = await self._ask(sql, timeout)
        return standing_of(answer)

    async def _call(self, sql: str, timeout: float, name: str | None) -> list[str]:
        try:
            return await self._ask(sql, timeout)
        except Broken as error:
            raise translated(error, self._where, name) from error

    async def _ask(self, sql: str, timeout: float) -> list[str]:
        """Ask once; again only if it was certainly not carried out, and there is hope and time."""
        io = self._io
        deadline = io.now() + timeout
        missed = False
        backoff: Backoff | None = None
        while True:
            wire = await self._pool.take(deadline - io.now())
            try:
                if missed:
                    await self._server.install(wire, deadline - io.now())
                return text_of(await wire.call(sql, deadline - io.now()))
            except Broken as error:
                if error.code in NOT_THERE and not missed:
                    missed = True
                    continue
                if error.code not in _AGAIN:
                    raise
                backoff = backoff or Backoff(0.002, 0.1, io.random)
                pause = backoff.next()
                if io.now() + pause >= deadline:
                    raise
            finally:
                self._pool.give(wire)
            await io.event().wait(pause)


def open_mysql(url: Url, io: IO) -> MysqlEngine:
    """`mysql://user:password@host:3306/database`; see docs/engines/mysql.md."""
    return MysqlEngine(target_of(url), io)
