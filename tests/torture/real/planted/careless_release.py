"""A worker whose release takes out whoever holds the lock, without comparing ids."""

from fencelock.core.ticket import Departure, Ticket
from fencelock.engines.redis.engine import RedisEngine
from fencelock.torture.real.worker import main

leave = RedisEngine.leave


async def planted(
    self: RedisEngine,
    ticket: Ticket,
    *,
    timeout: float,
    departure: Departure = Departure.RELEASED,
) -> bool:
    was_there = await leave(self, ticket, timeout=timeout, departure=departure)
    return was_there or await self.evict(ticket.name, timeout=timeout)


if __name__ == "__main__":
    RedisEngine.leave = planted  # type: ignore[method-assign]
    main()
