"""The engine over lease rows: tables in a database are the queue, and each operation is one call.

Correctness locks, as long as the server forgets nothing that it has acknowledged. A row lock decides
the order, the server's clock decides what has expired, and each fence is committed before anyone sees it.
"""

from __future__ import annotations

from collections.abc import Sequence

from fencelock.core.ticket import Departure, Place, Standing, Ticket
from fencelock.engines.sql.answers import lines_of, pushed_standing, standing_of
from fencelock.engines.sql.database import RowRequests, W
from fencelock.engines.sql.engine import SqlEngine, only_name
from fencelock.engines.sql.listener import Listener


class RowsEngine(SqlEngine[W]):
    """Queues in tables."""

    _requests: RowRequests
    _listener: Listener[W]

    async def enter(self, ticket: Ticket, *, if_free: bool, timeout: float) -> Standing:
        deadline = self._io.now() + timeout
        listener = self._listener
        waiting = False
        listens = listener.subscribe(ticket)
        try:
            with self._translated(ticket.name):
                # A ticket that may have to wait joins only if a wake-up can reach it.
                standing = await self._enter(ticket, if_free or not listens, timeout)
                if not listens and standing.place in (Place.WAITING, Place.REFUSED) and not if_free:
                    await listener.start(deadline - self._io.now())
                    listener.subscribe(ticket)
                    standing = await self._enter(ticket, if_free, deadline - self._io.now())
            waiting = standing.place is Place.WAITING
            return standing
        finally:
            if not waiting:
                listener.unsubscribe(ticket.id)

    async def _enter(self, ticket: Ticket, if_free: bool, timeout: float) -> Standing:
        request = self._requests.enter(ticket, self._listener.channel, if_free)
        (answer,) = await self._ask(request, timeout)
        return standing_of(answer)

    async def renew(self, tickets: Sequence[Ticket], *, timeout: float) -> list[Standing | None]:
        # All clients use the same order, so that two renewals can't deadlock.
        order = sorted(range(len(tickets)), key=lambda at: tickets[at].name.encode())
        request = self._requests.renew([tickets[at] for at in order])
        answers = await self._call(request, timeout, only_name(tickets))
        standings: list[Standing | None] = [None] * len(tickets)
        for at, line in zip(order, lines_of(answers), strict=True):
            standings[at] = standing_of(line)
        return standings

    async def leave(
        self, ticket: Ticket, *, timeout: float, departure: Departure = Departure.RELEASED
    ) -> bool:
        request = self._requests.leave(ticket, departure)
        return await self._call(request, timeout, ticket.name) == ["1"]

    async def park(self, ticket: Ticket, until: float) -> Standing | None:
        with self._translated(ticket.name):
            message = await self._listener.sleep(ticket.id, until - self._io.now())
        return None if message is None else pushed_standing(message)

    def unpark(self, ticket: Ticket) -> None:
        self._listener.unsubscribe(ticket.id)

    def interrupt(self, ticket: Ticket) -> None:
        self._listener.interrupt(ticket.id)

    async def remember(self, ticket: Ticket, text: str, *, keep: float, timeout: float) -> bool:
        request = self._requests.remember(ticket, text, keep)
        return await self._call(request, timeout, ticket.name) == ["1"]

    async def recall(self, name: str, *, timeout: float) -> str | None:
        notes = await self._call(self._requests.recall(name), timeout, name)
        return notes[0] if notes else None

    async def close(self) -> None:
        await self._listener.close()
        self._pool.close()
