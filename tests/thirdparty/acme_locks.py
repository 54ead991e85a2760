"""Locks in one pickled file, for the processes of one machine. Slow, but a complete engine."""

from __future__ import annotations

import fcntl
import pickle
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

from fencelock.core.errors import EngineError
from fencelock.core.names import matches
from fencelock.core.queue import TicketQueue
from fencelock.core.ticket import Departure, Inspection, Standing, Ticket
from fencelock.core.url import Url
from fencelock.engines.contract import Engine, Traits
from fencelock.io.contract import IO

T = TypeVar("T")


class Queues(dict[str, TicketQueue]):
    """A `TicketQueue` for each name. It is the contract as a runnable model."""

    def __missing__(self, name: str) -> TicketQueue:
        return self.setdefault(name, TicketQueue(name))


class AcmeEngine(Engine):
    """Each request locks the file, reads it, acts, and writes it back."""

    traits = Traits(
        guarantee="efficiency",
        fencing="max(previous + 1, the wall clock in µs): falls if the file is lost and the clock behind",
        clock="this machine's wall clock",
        push=False,
        portable=True,
    )

    def __init__(self, path: Path, io: IO) -> None:
        self._path = path
        self._io = io

    async def enter(self, ticket: Ticket, *, if_free: bool, timeout: float) -> Standing:
        return await self._do(
            timeout, lambda queues, now: queues[ticket.name].enter(ticket, now, if_free=if_free)
        )

    async def renew(self, tickets: Sequence[Ticket], *, timeout: float) -> list[Standing | None]:
        return await self._do(
            timeout, lambda queues, now: [queues[each.name].renew(each, now) for each in tickets]
        )

    async def leave(
        self, ticket: Ticket, *, timeout: float, departure: Departure = Departure.RELEASED
    ) -> bool:
        return await self._do(
            timeout, lambda queues, now: queues[ticket.name].leave(ticket, now, departure)
        )

    async def park(self, ticket: Ticket, until: float) -> Standing | None:
        # This engine sends no wake-ups (push=False). So sleep for a moment; None means "look again".
        await self._io.event().wait(min(0.05, until - self._io.now()))
        return None

    async def inspect(self, name: str, *, limit: int, timeout: float) -> Inspection:
        return await self._do(timeout, lambda queues, now: queues[name].inspect(now, limit))

    async def names(self, pattern: str, *, timeout: float) -> list[str]:
        def in_use(queues: Queues, now: float) -> list[str]:
            return [name for name, queue in queues.items() if queue.inspect(now, 0).holders]

        return sorted(n for n in await self._do(timeout, in_use) if matches(n, pattern))

    async def evict(self, name: str, *, timeout: float) -> bool:
        return await self._do(timeout, lambda queues, now: queues[name].evict(now))

    async def close(self) -> None:
        pass

    async def _do(self, timeout: float, act: Callable[[Queues, float], T]) -> T:
        # A function that may block goes through io.call. In asyncio, that runs it in another thread.
        return await self._io.call(self._transact, self._io.now() + timeout, act)

    def _transact(self, deadline: float, act: Callable[[Queues, float], T]) -> T:
        try:
            with self._path.with_suffix(".lock").open("w") as alone:
                self._lock(alone.fileno(), deadline)
                queues = pickle.loads(self._path.read_bytes()) if self._path.exists() else Queues()
                result = act(queues, time.time())
                draft = self._path.with_suffix(".draft")
                draft.write_bytes(pickle.dumps(queues))
                draft.replace(self._path)  # all of it or nothing, even if we are killed here
                return result
        except OSError as error:  # the only place that turns the system's errors into Fencelock's
            raise EngineError(f"can't use {self._path}: {error}", outcome="not applied") from error

    def _lock(self, descriptor: int, deadline: float) -> None:
        while True:
            try:
                return fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if self._io.now() > deadline:
                    raise
                time.sleep(0.001)


def open_acme(url: Url, io: IO) -> AcmeEngine:
    """`acme:///folder/file`. Opening does no I/O, so a client can be made while a server is away."""
    url.only()  # there are no options, and a misspelt option must not be ignored
    if url.hosts or not url.path.strip("/"):
        raise ValueError(f"{url}: name a file, e.g. acme:///tmp/locks")
    return AcmeEngine(Path(url.path), io)
