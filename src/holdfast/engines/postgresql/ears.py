"""Wake-ups: one connection per client listens for all of its tickets that wait.

It is opened when somebody has to wait, and closed when nobody has waited for a while. Behind a pooler
in transaction mode nobody can listen: then one request asks for all of them, again and again.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Awaitable, Callable, Sequence

from holdfast.core.backoff import Backoff
from holdfast.core.ticket import Ticket
from holdfast.engines.postgresql.schema import Statement, array
from holdfast.engines.postgresql.server import Server
from holdfast.engines.postgresql.wire import Wire
from holdfast.engines.sql.broken import Broken
from holdfast.io.contract import IO, Event, Task

log = logging.getLogger("holdfast")

_IDLE = 10.0
"""Seconds without a waiter after which nobody listens any more."""

_TEST = 1.0
"""Seconds after which a notification that was sent as a test does not arrive any more."""

Ask = Callable[[Statement, Sequence[str], float], Awaitable[list[str]]]


class _Ear:
    """One ticket that waits, and what was heard for it."""

    __slots__ = ("broken", "event", "news", "ticket")

    def __init__(self, ticket: Ticket) -> None:
        self.ticket = ticket
        self.event: Event | None = None
        self.news: str | None = None
        self.broken: Broken | None = None


class Ears:
    """Where the wake-ups of one client arrive."""

    def __init__(self, server: Server, ask: Ask, io: IO) -> None:
        self._server = server
        self._ask = ask
        self._io = io
        self._mutex = threading.Lock()  # never held across an await, so it serves every io
        self._ears: dict[str, _Ear] = {}
        self._wire: Wire | None = None
        self._task: Task | None = None
        self._starting: Event | None = None
        self._stop: Event | None = None
        self._open = False
        self._deaf = False
        self._closed = False
        self._channel = "holdfast_" + os.urandom(8).hex()

    @property
    def channel(self) -> str:
        """Where to notify us; "" if that is of no use."""
        return "" if self._deaf else self._channel

    def expect(self, ticket: Ticket) -> bool:
        """Collect the wake-ups for a ticket from now on; False if nobody listens yet."""
        if not self._open:
            return False
        with self._mutex:
            if self._open:
                self._ears.setdefault(ticket.id, _Ear(ticket))
            return self._open

    def ignore(self, id: str) -> None:
        """Collect them no more; one who still waits for them stops."""
        if id not in self._ears:
            return
        with self._mutex:
            ear = self._ears.pop(id, None)
        if ear is not None and ear.event is not None:
            ear.event.set()

    async def hear(self, id: str, timeout: float) -> str | None:
        """Sleep until a wake-up for a ticket arrives."""
        with self._mutex:
            ear = self._ears.get(id)
            if ear is None:  # dismissed
                return None
            if ear.event is None:
                ear.event = self._io.event()
                if ear.news is not None:
                    ear.event.set()
        await ear.event.wait(timeout)
        with self._mutex:
            ear.event.clear()
            news, ear.news = ear.news, None
        if news is None and ear.broken is not None:
            raise Broken(str(ear.broken), "not applied", ear.broken.code)
        return news

    async def start(self, timeout: float) -> None:
        """Listen from now on. Many may ask at once: one of them does it, the others wait for that."""
        deadline = self._io.now() + timeout
        while not self._open:
            with self._mutex:
                if self._closed:
                    raise Broken("the client was closed", "not applied")
                ours = self._starting is None
                started = self._starting = self._starting or self._io.event()
            if not ours:
                if not await started.wait(deadline - self._io.now()):
                    raise Broken("no answer to LISTEN", "not applied")
                continue
            try:
                await self._start(deadline)
            finally:
                with self._mutex:
                    self._starting = None
                started.set()

    async def close(self) -> None:
        """Stop listening; those who still wait look again."""
        with self._mutex:
            self._closed = True
            task = self._task
            ids = list(self._ears)
            if self._wire is not None:
                self._wire.hang_up()
            if self._stop is not None:
                self._stop.set()
        for id in ids:
            self.ignore(id)
        if task is not None:
            await task.join()

    async def _start(self, deadline: float) -> None:
        if not self._deaf:
            wire = await self._server.connect(deadline - self._io.now())
            try:
                if not self._server.pooled or await self._hears(wire, deadline):
                    await wire.script(f"LISTEN {self._channel}", deadline - self._io.now())
                    self._begin(wire)
                    return
            except BaseException:
                wire.close()
                raise
            wire.close()
            self._deaf = True
            log.warning(
                "a connection pooler in transaction mode is in the way of LISTEN: waiting for locks "
                "goes by polling, which is slower; connect to the server itself to be woken"
            )
        self._begin(None)

    async def _hears(self, wire: Wire, deadline: float) -> bool:
        """Whether a session stays the same between two requests, as LISTEN needs it."""
        channel = "holdfast_" + os.urandom(8).hex()
        await wire.script(f"LISTEN {channel}", deadline - self._io.now())
        notify = self._server.statements.notify
        await self._ask(notify, [channel, "test"], deadline - self._io.now())
        heard = await wire.notifications(min(_TEST, deadline - self._io.now()))
        return bool(heard)

    def _begin(self, wire: Wire | None) -> None:
        with self._mutex:
            if self._closed:
                raise Broken("the client was closed", "not applied")
            self._wire, self._open = wire, True
            self._stop = self._io.event()
            work = self._poll(self._stop) if wire is None else self._listen(wire)
            self._task = self._io.spawn(work, "holdfast-listener")

    async def _listen(self, wire: Wire) -> None:
        try:
            while True:
                for payload in await wire.notifications(_IDLE):
                    self._deliver(payload)
                if self._retire():
                    return
        except Broken as error:
            self._lose(error)
        finally:
            wire.close()

    async def _poll(self, stop: Event) -> None:
        """One request for all who wait, in growing pauses as long as there is no news."""
        backoff = Backoff(0.02, 0.25, self._io.random)
        idle_since = self._io.now()
        waiting: set[str] = set()
        while not await stop.wait(backoff.next()):
            with self._mutex:
                tickets = [ear.ticket for ear in self._ears.values()]
            if not waiting >= {ticket.id for ticket in tickets}:
                backoff.reset()
            waiting = {ticket.id for ticket in tickets}
            if not tickets:
                if self._io.now() - idle_since >= _IDLE and self._retire():
                    return
                continue
            idle_since = self._io.now()
            names = array(ticket.name for ticket in tickets)
            ids = array(ticket.id for ticket in tickets)
            try:
                admitted = await self._ask(self._server.statements.admitted, [names, ids], _TEST)
            except Broken as error:
                self._lose(error)
                return
            for payload in admitted:
                self._deliver(payload)
                backoff.reset()

    def _retire(self) -> bool:
        """Stop if nobody waits."""
        with self._mutex:
            if self._ears and not self._closed:
                return False
            self._open, self._wire, self._task = False, None, None
            return True

    def _lose(self, error: Broken) -> None:
        """Nothing will be heard any more: tell everyone who waits."""
        with self._mutex:
            self._open, self._wire, self._task = False, None, None
            ears = list(self._ears.values())
            self._ears.clear()
        for ear in ears:
            ear.broken = error
            if ear.event is not None:
                ear.event.set()

    def _deliver(self, payload: str) -> None:
        id, _, news = payload.partition(" ")
        with self._mutex:
            ear = self._ears.get(id)
            if ear is not None:
                ear.news = news  # two may come before the waiter runs: the second one counts
        if ear is not None and ear.event is not None:
            ear.event.set()
