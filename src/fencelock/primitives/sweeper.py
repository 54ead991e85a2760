"""The sweeper: takes tickets out of their queues when nobody else will.

Their owner was cancelled, never learned whether its request arrived, or lost the lease. It runs apart
from the keeper, because keeping leases alive comes first, and only while there is something to sweep.
"""

from __future__ import annotations

import logging
import threading

from fencelock.core.backoff import Backoff
from fencelock.core.errors import FencelockError
from fencelock.core.ticket import Departure
from fencelock.engines.contract import Engine
from fencelock.io.contract import IO, Event, Task
from fencelock.io.process import Origin
from fencelock.primitives.kept import Kept

log = logging.getLogger("fencelock")

REQUEST_TIMEOUT = 2.0
"""How long any one request to an engine may take, in seconds, unless the caller has less time."""


class _Doomed:
    """A ticket that must not stay in its queue, and until when to try."""

    __slots__ = ("backoff", "certain", "departure", "due", "ticket", "until")

    def __init__(
        self, kept: Kept, departure: Departure, now: float, due: float, backoff: Backoff
    ) -> None:
        self.ticket = kept.ticket
        self.departure = departure
        self.certain = not kept.unanswered
        self.due = due
        self.until = now + kept.ticket.ttl
        self.backoff = backoff


class Sweeper:
    """Tries again and again, until a ticket is gone for sure."""

    def __init__(self, engine: Engine, io: IO) -> None:
        self._engine = engine
        self._io = io
        self._origin = Origin()  # in a forked child the tickets are its parent's: hands off
        self._mutex = threading.RLock()  # as the keeper's is
        self._doomed: dict[str, _Doomed] = {}
        self._task: Task | None = None
        self._alarm: Event | None = None
        self._closing = False

    def __len__(self) -> int:
        return len(self._doomed)

    def __contains__(self, kept: Kept) -> bool:
        return kept.ticket.id in self._doomed

    def doom(self, kept: Kept) -> None:
        """Take this ticket out of its queue, in the background, however long the engine is away.

        It is done when the engine says that it took it out, or when the ttl has passed: an answer
        "not there" may be overtaken by the request that puts it there. So may any answer, as long
        as there is a request to join the queue of which nothing was heard. If nothing is answered at all,
        it goes on for as long as the ticket may outlive its ttl there.
        """
        if self._origin.here:
            self.condemn(kept, kept.departure(kept.reason), 0.0)
            self.start()

    def condemn(self, kept: Kept, departure: Departure, after: float) -> None:
        """Write down that this ticket must go, and give its caller so many seconds for a first try."""
        now, ticket = self._io.now(), kept.ticket
        backoff = Backoff(0.05, max(0.05, ticket.ttl / 4), self._io.random)
        with self._mutex:
            self._doomed[ticket.id] = _Doomed(kept, departure, now, now + after, backoff)

    async def discard(self, kept: Kept, patience: float) -> None:
        """Take a condemned ticket out of its queue: now if the engine answers, else in the background."""
        id = kept.ticket.id
        try:
            if patience:
                await self._io.shield(self._drop(id, timeout=patience))
        finally:
            if id in self._doomed:
                self.start()

    async def close(self) -> None:
        """End the background, after one more try for each ticket."""
        with self._mutex:
            self._closing = True
        if self._alarm is not None:
            self._alarm.set()
        if self._task is not None:
            await self._task.join()
        for id in list(self._doomed):
            if not await self._drop(id):
                break  # the engine does not answer: what is left there ends with its ttl

    def start(self) -> None:
        """Begin to take out what is condemned."""
        with self._mutex:
            if self._closing:
                return
            if self._task is None:
                self._alarm = self._io.event()
                self._task = self._io.spawn(self._run(), "fencelock-sweeper")
            elif self._alarm is not None:
                self._alarm.set()

    async def _run(self) -> None:
        assert self._alarm is not None
        while not self._closing:
            self._alarm.clear()
            with self._mutex:
                if not self._doomed:
                    self._task = None
                    return
                id, doomed = min(list(self._doomed.items()), key=lambda item: item[1].due)
            wait = doomed.due - self._io.now()
            if wait > 0:
                await self._alarm.wait(wait)
            else:
                await self._drop(id)

    async def _drop(self, id: str, *, timeout: float = REQUEST_TIMEOUT) -> bool:
        """Try to take out a doomed ticket; False if the engine did not answer."""
        doomed = self._doomed.get(id)
        if doomed is None:
            return True
        answered, done = True, False
        try:
            done = await self._engine.leave(
                doomed.ticket, timeout=timeout, departure=doomed.departure
            )
        except Exception as error:  # even what no engine should raise must not end all sweeping
            answered = False
            if not isinstance(error, FencelockError):
                log.warning("could not take out a ticket", exc_info=error)
        now = self._io.now()
        until = doomed.until if answered else doomed.until + self._engine.traits.max_overstay
        if (done and doomed.certain) or now >= until:
            self._doomed.pop(id, None)
        else:
            doomed.due = now + doomed.backoff.next()
        return answered
