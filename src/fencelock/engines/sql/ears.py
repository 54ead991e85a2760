"""Wake-ups: one connection per client listens for all of its tickets that wait.

It is opened when somebody has to wait, and closed when nobody has waited for a while. How one listens
is the database's part.
"""

from __future__ import annotations

import logging
import threading
from abc import ABC, abstractmethod
from typing import ClassVar, Generic, TypeVar

from fencelock.core.ticket import Ticket
from fencelock.engines.sql.broken import DatabaseFailed
from fencelock.engines.sql.database import Wire
from fencelock.io.contract import IO, Event, Task

W = TypeVar("W", bound=Wire)

log = logging.getLogger("fencelock")


class _Ear:
    """One ticket that waits, and what was heard for it."""

    __slots__ = ("broken", "event", "news", "ticket", "told")

    def __init__(self, ticket: Ticket) -> None:
        self.ticket = ticket
        self.event: Event | None = None
        self.news: str | None = None
        self.told = False
        """There is news that it has not acted upon yet: no need to ask for more."""
        self.broken: DatabaseFailed | None = None


class Ears(ABC, Generic[W]):
    """Where the wake-ups of one client arrive."""

    IDLE: ClassVar = 10.0
    """Seconds without a waiter after which nobody listens any more."""

    ROUSED: ClassVar = False
    """Whether one who listens has to be roused for each ticket more that sleeps."""

    def __init__(self, io: IO) -> None:
        self._io = io
        self._mutex = threading.Lock()  # never held across an await, so it serves every io
        self._ears: dict[str, _Ear] = {}
        self._wire: W | None = None
        self._task: Task | None = None
        self._starting: Event | None = None
        self._alarm: Event | None = None
        """Set to interrupt the one who listens: at the end, or for one ticket more."""
        self._open = False
        self._closed = False
        self.channel = ""
        """Where to tell us; "" if that is of no use."""

    @abstractmethod
    async def _opened(self, deadline: float) -> W | None:
        """A connection to listen on, and its channel; None if one can't listen on a connection."""

    @abstractmethod
    async def _listen(self, wire: W | None, alarm: Event) -> None:
        """Deliver what comes, until it is time to retire."""

    def expect(self, ticket: Ticket) -> bool:
        """Collect the wake-ups for a ticket from now on; False if nobody listens yet."""
        if not self._open:
            return False
        with self._mutex:
            if self._open:
                self._ears.setdefault(ticket.id, _Ear(ticket)).told = False
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
                if ear.told:
                    ear.event.set()
            if self.ROUSED and self._alarm is not None:
                self._alarm.set()
        await ear.event.wait(timeout)
        with self._mutex:
            ear.event.clear()
            news, ear.news = ear.news, None
        if news is None and ear.broken is not None:
            raise DatabaseFailed(str(ear.broken), "not applied", ear.broken.code)
        return news

    def interrupt(self, id: str) -> None:
        """Let one who sleeps until a wake-up arrives come back at once."""
        with self._mutex:
            ear = self._ears.get(id)
        if ear is not None and ear.event is not None:
            ear.event.set()

    async def start(self, timeout: float) -> None:
        """Listen from now on. Many may ask at once: one of them does it, the others wait for that."""
        deadline = self._io.now() + timeout
        while True:
            with self._mutex:
                if self._open:
                    return
                if self._closed:
                    raise DatabaseFailed("the client was closed", "not applied")
                ours = self._starting is None
                started = self._starting = self._starting or self._io.event()
            if not ours:
                if not await started.wait(deadline - self._io.now()):
                    raise DatabaseFailed("no answer while connecting to listen", "not applied")
                continue
            try:
                self._begin(await self._opened(deadline))
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
            if self._alarm is not None:
                self._alarm.set()
        for id in ids:
            self.ignore(id)
        if task is not None:
            await task.join()

    def _begin(self, wire: W | None) -> None:
        try:
            with self._mutex:
                if self._closed:
                    raise DatabaseFailed("the client was closed", "not applied")
                self._alarm = self._io.event()
                work = self._work(wire, self._alarm)
                self._task = self._io.spawn(work, "fencelock-listener")
                self._wire, self._open = wire, True
        except BaseException:
            if wire is not None:
                wire.close()
            raise

    async def _work(self, wire: W | None, alarm: Event) -> None:
        try:
            await self._listen(wire, alarm)
        except DatabaseFailed as error:
            self._lose(error)
        except Exception as error:
            log.warning("a listener has ended, and another one takes its place", exc_info=error)
            self._lose(DatabaseFailed(f"the listener failed: {error!r}", "not applied"))
        except BaseException:  # cancelled from outside: it is nobody's to end it for good
            self._lose(None)
            raise
        finally:
            if wire is not None:
                wire.close()

    # --- for those who listen

    def _waiting(self) -> list[Ticket]:
        """The tickets for which there is no news yet, if anyone sleeps: most never have to."""
        with self._mutex:
            ears = [ear for ear in self._ears.values() if not ear.told]
            if all(ear.event is None for ear in ears):
                return []
            return [ear.ticket for ear in ears]

    def _deliver(self, line: str) -> None:
        """Wake a ticket: "ID STANDING", or only "ID" if it should look again."""
        id, _, news = line.partition(" ")
        with self._mutex:
            ear = self._ears.get(id)
            if ear is not None:
                # Two may come before the waiter runs: the second one counts.
                ear.told, ear.news = True, news or None
        if ear is not None and ear.event is not None:
            ear.event.set()

    def _retire(self) -> bool:
        """Stop if nobody waits."""
        with self._mutex:
            if self._ears and not self._closed:
                return False
            self._forget()
            return True

    def _lose(self, error: DatabaseFailed | None) -> None:
        """Nothing will be heard any more: tell everyone who waits. Without an error they look again."""
        with self._mutex:
            self._forget()
            ears = list(self._ears.values())
            self._ears.clear()
        for ear in ears:
            ear.broken = error
            if ear.event is not None:
                ear.event.set()

    def _forget(self) -> None:
        self._open, self._wire, self._task, self._alarm = False, None, None, None
