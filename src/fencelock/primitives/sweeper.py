"""The sweeper: takes tickets out of their queues when their callers can't do it.

The caller was cancelled, never learned whether its request arrived, or lost the lease. The sweeper runs apart
from the keeper, because renewals come first, and only while there is something to take out.
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
from fencelock.primitives.claim import WITHDRAWN, Claim

log = logging.getLogger("fencelock.sweeper")

REQUEST_TIMEOUT = 2.0
"""Timeout of a request to an engine, in seconds, unless the caller has less time."""


class _Doomed:
    """A ticket that must leave its queue, and how long to try."""

    __slots__ = ("backoff", "certain", "departure", "due", "ticket", "until")

    def __init__(
        self, claim: Claim, departure: Departure, now: float, due: float, backoff: Backoff
    ) -> None:
        self.ticket = claim.ticket
        self.departure = departure
        self.certain = not claim.unanswered
        """Whether no request to join is still under way, so that the first answer is final."""
        self.due = due
        self.until = now + claim.ticket.ttl
        self.backoff = backoff


class Sweeper:
    """Tries again and again, until a ticket has left its queue for certain."""

    def __init__(self, engine: Engine, io: IO) -> None:
        self.engine = engine
        self._io = io
        self._origin = Origin()  # in a forked child the tickets are the parent's
        self._mutex = threading.RLock()  # re-entrant, as the context's is
        self._doomed: dict[str, _Doomed] = {}
        self._task: Task | None = None
        self._alarm: Event | None = None
        self._closing = False

    def __len__(self) -> int:
        return len(self._doomed)

    def __contains__(self, claim: Claim) -> bool:
        return claim.ticket.id in self._doomed

    def doom(self, claim: Claim, after: float = 0.0) -> None:
        """Take this ticket out of its queue, in the background, however long the engine is away. The first
        try comes `after` seconds from now.

        This ends when the engine says that it took the ticket out, or when the ttl has passed. The answer
        "not there" does not end it: the request that puts the ticket there may still arrive. As long as a
        request to join is unanswered, no answer ends it. If the engine never answers, this goes on for as
        long as the ticket may outlive its ttl there.
        """
        if self._origin.here:
            self.condemn(claim, claim.departure(claim.reason or WITHDRAWN), after)
            self.start()

    def condemn(self, claim: Claim, departure: Departure, after: float) -> None:
        """Write down that this ticket must leave. The caller has `after` seconds for a first try."""
        now, ticket = self._io.now(), claim.ticket
        backoff = Backoff(0.05, max(0.05, ticket.ttl / 4), self._io.random)
        with self._mutex:
            self._doomed[ticket.id] = _Doomed(claim, departure, now, now + after, backoff)

    async def discard(self, claim: Claim, patience: float) -> None:
        """Take a condemned ticket out of its queue: now if the engine answers, else in the background."""
        id = claim.ticket.id
        try:
            if patience:
                await self._io.shield(self._drop(id, timeout=patience))
        finally:
            if id in self._doomed:
                self.start()

    def stop(self) -> None:
        """Leave what is condemned from now on to `close`."""
        with self._mutex:
            self._closing = True

    async def close(self) -> None:
        """End the background, after one more try for each ticket."""
        self.stop()
        if self._alarm is not None:
            self._alarm.set()
        if self._task is not None:
            await self._task.join()
        for id in list(self._doomed):
            if not await self._drop(id):
                break  # the engine does not answer: the rest ends with its ttl

    def start(self) -> None:
        """Start taking out what is condemned."""
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
        """Try to take out a doomed ticket. False if the engine did not answer."""
        doomed = self._doomed.get(id)
        if doomed is None:
            return True
        answered, done = True, False
        try:
            done = await self.engine.leave(
                doomed.ticket, timeout=timeout, departure=doomed.departure
            )
        except Exception as error:  # even what no engine should raise must not end the sweeper
            answered = False
            if not isinstance(error, FencelockError):
                log.warning("could not take out a ticket", exc_info=error)
        now = self._io.now()
        until = doomed.until if answered else doomed.until + self.engine.traits.max_overstay
        if (done and doomed.certain) or now >= until:
            self._doomed.pop(id, None)
        else:
            doomed.due = now + doomed.backoff.next()
        return answered
