"""The engine over lease rows: tables in a database are the queue, and each operation is one call.

Correctness locks, as long as the server forgets nothing that it has acknowledged. A row lock decides
the order, the server's clock decides what has expired, and each fence is committed before anyone sees it.
"""

from __future__ import annotations

from collections.abc import Sequence

from fencelock.core.ticket import Departure, Place, Standing, Ticket
from fencelock.engines.contract import Traits
from fencelock.engines.failure import translated
from fencelock.engines.sql.database import W
from fencelock.engines.sql.engine import SqlEngine
from fencelock.engines.sql.listener import Listener
from fencelock.engines.sql.requests import RowRequests, lines_of, pushed_standing, standing_of


def row_traits(product: str, copy: str, condition: str) -> Traits:
    """The traits of lease rows. `copy` is what the database calls a server that replicates it."""
    return Traits(
        guarantee="correctness",
        fencing=(
            "max(previous + 1, the server's clock in µs), committed before it is used; falls only if the "
            f"newest commits are lost, as when a lagging {copy} is promoted, and the clock of the new "
            "server is behind; a fence may then be given twice, so guards compare (fence, id)"
        ),
        clock=f"the {product} server's wall clock",
        supports_sharing=True,
        supports_rates=True,
        supports_notes=True,
        portable=True,
        condition=condition,
    )


class RowsEngine(SqlEngine[W]):
    """Queues in tables."""

    _requests: RowRequests
    _listener: Listener[W]

    @translated
    async def enter(self, ticket: Ticket, *, if_free: bool, timeout: float) -> Standing:
        deadline = self._io.now() + timeout
        listener = self._listener
        waiting = False
        listens = listener.subscribe(ticket)
        try:
            # A ticket that may have to wait joins only if a wake-up can reach it.
            standing = await self._enter(ticket, if_free or not listens, timeout)
            # A ticket that looks again waits already, also with `if_free`.
            waits = standing.place is Place.WAITING
            if not listens and (waits or (standing.place is Place.REFUSED and not if_free)):
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

    @translated
    async def renew(self, tickets: Sequence[Ticket], *, timeout: float) -> list[Standing | None]:
        # All clients use the same order, so that two renewals can't deadlock.
        order = sorted(range(len(tickets)), key=lambda at: tickets[at].name.encode())
        request = self._requests.renew([tickets[at] for at in order])
        answers = await self._ask(request, timeout)
        standings: list[Standing | None] = [None] * len(tickets)
        for at, line in zip(order, lines_of(answers), strict=True):
            standings[at] = standing_of(line)
        return standings

    @translated
    async def leave(
        self, ticket: Ticket, *, timeout: float, departure: Departure = Departure.RELEASED
    ) -> bool:
        return await self._ask(self._requests.leave(ticket, departure), timeout) == ["1"]

    @translated
    async def park(self, ticket: Ticket, until: float) -> Standing | None:
        message = await self._listener.sleep(ticket.id, until - self._io.now())
        return None if message is None else pushed_standing(message)

    def unpark(self, ticket: Ticket) -> None:
        self._listener.unsubscribe(ticket.id)

    def interrupt(self, ticket: Ticket) -> None:
        self._listener.interrupt(ticket.id)

    @translated
    async def remember(self, ticket: Ticket, text: str, *, keep: float, timeout: float) -> bool:
        return await self._ask(self._requests.remember(ticket, text, keep), timeout) == ["1"]

    @translated
    async def recall(self, name: str, *, timeout: float) -> str | None:
        notes = await self._ask(self._requests.recall(name), timeout)
        return notes[0] if notes else None

    async def close(self) -> None:
        await self._listener.close()
        self._pool.close()
