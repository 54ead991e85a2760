"""The memory engine: the reference queue for the clients of one process. For tests and simulation."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from typing import TypeVar

from fencelock.core.errors import EngineError
from fencelock.core.names import matches
from fencelock.core.queue import TicketQueue
from fencelock.core.ticket import Departure, Inspection, Place, Standing, Ticket
from fencelock.core.url import Url
from fencelock.engines.contract import REENTERED, Engine, Traits
from fencelock.io.contract import IO, Event
from fencelock.io.reentry import ownership

T = TypeVar("T")


class MemoryStore:
    """What a server would keep: the queues by name, and the events of the parked tickets by id."""

    def __init__(self) -> None:
        # Re-entrant, so that a thread that holds it already is refused and does not wait for itself.
        self._mutex = threading.RLock()
        self._held_here = ownership(self._mutex)
        self._queues: dict[str, TicketQueue] = {}
        self.parked: dict[str, Event] = {}

    def on(self, name: str, act: Callable[[TicketQueue], T]) -> T:
        """Act on one queue, then wake the tickets that this admitted."""
        if self._held_here():
            raise EngineError(REENTERED, outcome="not applied", name=name)
        with self._mutex:
            queue = self._queues.setdefault(name, TicketQueue(name))
            result = act(queue)
            woken = [self.parked.get(ticket.id) for ticket in queue.told()]
        for event in woken:
            if event is not None:
                event.set()
        return result

    def names(self, now: float) -> list[str]:
        """The names that are held or waited for."""
        with self._mutex:
            return [name for name, queue in self._queues.items() if queue.inspect(now, 0).holders]

    def wipe(self) -> None:
        """Forget everything, as a server without persistence does when it restarts."""
        with self._mutex:
            self._queues.clear()


class MemoryEngine(Engine):
    """Clients meet if they share a store: the same `memory://name` in one process."""

    traits = Traits(
        guarantee="correctness",
        fencing="a counter and the process's clock; nothing outlives the process",
        clock="the process's own",
        supports_sharing=True,
        supports_rates=True,
        supports_notes=True,
        cross_process=False,
        portable=True,
        condition="all users of the lock are in this process",
    )

    def __init__(self, store: MemoryStore, io: IO) -> None:
        self._store = store
        self._io = io

    async def enter(self, ticket: Ticket, *, if_free: bool, timeout: float) -> Standing:
        # The event is there before the ticket joins, so no wake-up can be missed.
        self._store.parked[ticket.id] = self._io.event()
        standing = self._store.on(
            ticket.name, lambda queue: queue.enter(ticket, self._io.now(), if_free=if_free)
        )
        if standing.place is not Place.WAITING:
            self.unpark(ticket)
        return standing

    async def renew(self, tickets: Sequence[Ticket], *, timeout: float) -> list[Standing | None]:
        return [self._renew(ticket) for ticket in tickets]

    def _renew(self, ticket: Ticket) -> Standing:
        return self._store.on(ticket.name, lambda queue: queue.renew(ticket, self._io.now()))

    async def leave(
        self, ticket: Ticket, *, timeout: float, departure: Departure = Departure.RELEASED
    ) -> bool:
        return self._store.on(
            ticket.name, lambda queue: queue.leave(ticket, self._io.now(), departure)
        )

    async def park(self, ticket: Ticket, until: float) -> Standing | None:
        event = self._store.parked.get(ticket.id)
        if event is None:  # another client has entered the ticket since, and does not wait any more
            return None
        if not await event.wait(max(0.0, until - self._io.now())):
            return None
        event.clear()
        return self._store.on(ticket.name, lambda queue: queue.standing(ticket.id, self._io.now()))

    def unpark(self, ticket: Ticket) -> None:
        self._store.parked.pop(ticket.id, None)

    def interrupt(self, ticket: Ticket) -> None:
        event = self._store.parked.get(ticket.id)
        if event is not None:
            event.set()

    async def remember(self, ticket: Ticket, text: str, *, keep: float, timeout: float) -> bool:
        return self._store.on(
            ticket.name, lambda queue: queue.remember(ticket, text, keep, self._io.now())
        )

    async def recall(self, name: str, *, timeout: float) -> str | None:
        return self._store.on(name, lambda queue: queue.recall(self._io.now()))

    async def inspect(self, name: str, *, limit: int, timeout: float) -> Inspection:
        return self._store.on(name, lambda queue: queue.inspect(self._io.now(), limit))

    async def names(self, pattern: str, *, timeout: float) -> list[str]:
        return sorted(name for name in self._store.names(self._io.now()) if matches(name, pattern))

    async def evict(self, name: str, *, timeout: float) -> bool:
        return self._store.on(name, lambda queue: queue.evict(self._io.now()))

    async def close(self) -> None:
        pass


_stores: dict[str, MemoryStore] = {}

# A forked child starts with empty stores: its copies of the parent's tickets would never be released.
os.register_at_fork(after_in_child=_stores.clear)


def open_memory(url: Url, io: IO) -> MemoryEngine:
    """`memory://` or `memory://name`: one store per name and process."""
    url.only()
    name = url.hosts[0][0] if url.hosts else ""
    return MemoryEngine(_stores.setdefault(name, MemoryStore()), io)
