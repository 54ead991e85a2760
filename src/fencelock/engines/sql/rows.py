"""The engine over lease rows: tables in a database are the queue, and one call is one operation.

Correctness locks, as long as the server forgets nothing that it has acknowledged: a row lock decides
who is next, the server's clock what has expired, and the fence is committed before anyone sees it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from fencelock.core.ticket import Departure, Place, Standing, Ticket
from fencelock.engines.sql.answers import lines_of, news_of, standing_of
from fencelock.engines.sql.broken import DatabaseFailed
from fencelock.engines.sql.database import RowCalls, Wire
from fencelock.engines.sql.ears import Ears
from fencelock.engines.sql.engine import SqlEngine

W = TypeVar("W", bound=Wire)


class RowsEngine(SqlEngine[W]):
    """Queues in tables."""

    _calls: RowCalls
    _ears: Ears[W]

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
        except DatabaseFailed as error:
            raise self._troubles.translated(error, self._where, ticket.name) from error
        finally:
            if not waiting:
                ears.ignore(ticket.id)

    async def _enter(self, ticket: Ticket, if_free: bool, timeout: float) -> Standing:
        request = self._calls.enter(ticket, self._ears.channel, if_free)
        (answer,) = await self._ask(request, timeout)
        return standing_of(answer)

    async def renew(self, tickets: Sequence[Ticket], *, timeout: float) -> list[Standing | None]:
        # In one order for everybody, so that two renewals can't deadlock.
        order = sorted(range(len(tickets)), key=lambda at: tickets[at].name.encode())
        request = self._calls.renew([tickets[at] for at in order])
        name = tickets[0].name if len(tickets) == 1 else None
        answers = await self._call(request, timeout, name)
        standings: list[Standing | None] = [None] * len(tickets)
        for at, line in zip(order, lines_of(answers), strict=True):
            standings[at] = standing_of(line)
        return standings

    async def leave(
        self, ticket: Ticket, *, timeout: float, departure: Departure = Departure.RELEASED
    ) -> bool:
        request = self._calls.leave(ticket, departure)
        return await self._call(request, timeout, ticket.name) == ["1"]

    async def park(self, ticket: Ticket, until: float) -> Standing | None:
        try:
            news = await self._ears.hear(ticket.id, until - self._io.now())
        except DatabaseFailed as error:
            self.unpark(ticket)
            raise self._troubles.translated(error, self._where, ticket.name) from error
        return None if news is None else news_of(news)

    def unpark(self, ticket: Ticket) -> None:
        self._ears.ignore(ticket.id)

    def interrupt(self, ticket: Ticket) -> None:
        self._ears.interrupt(ticket.id)

    async def remember(self, ticket: Ticket, text: str, *, keep: float, timeout: float) -> bool:
        request = self._calls.remember(ticket, text, keep)
        return await self._call(request, timeout, ticket.name) == ["1"]

    async def recall(self, name: str, *, timeout: float) -> str | None:
        noted = await self._call(self._calls.recall(name), timeout, name)
        return noted[0] if noted else None

    async def close(self) -> None:
        await self._ears.close()
        self._pool.close()
