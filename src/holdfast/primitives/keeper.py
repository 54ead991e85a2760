"""The keeper: one thread or task per client that renews every lease and every waiting ticket.

It also notices when a lease is lost, and takes tickets back out of a queue when their owner was
cancelled or never learned whether its request arrived.
"""

from __future__ import annotations

import logging
import math
import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any

from holdfast.core.backoff import Backoff
from holdfast.core.durations import deadline
from holdfast.core.errors import EngineError
from holdfast.core.lease import LeaseState, state_of
from holdfast.core.ticket import Place, Standing, Ticket
from holdfast.engines.contract import Engine
from holdfast.io.contract import IO, Event, Task

log = logging.getLogger("holdfast")

RENEW_AT = 1 / 3
"""The part of its ttl after which a ticket is renewed: two more tries fit before it expires."""

RELEASED = "released"
EXPIRED = "its ttl passed without a renewal that the engine confirmed"
EVICTED = (
    "the engine no longer knows it: it expired there, was broken, or the engine lost its memory"
)

REQUEST_TIMEOUT = 2.0
"""How long any one request to an engine may take, in seconds, unless the caller has less time."""

_BATCH = 1_000
"""Tickets per renewal request: bounds how long one request keeps an engine busy."""

_IDLE = 10.0
"""Seconds without work after which the keeper ends itself; the next ticket starts it again."""


class Kept:
    """A ticket that the keeper renews, and all that is known of it."""

    __slots__ = (
        "abandoned",
        "admitted",
        "caller",
        "deadline",
        "depth",
        "due",
        "event",
        "fence",
        "on_lost",
        "place",
        "reason",
        "recheck_at",
        "suspended",
        "ticket",
    )

    def __init__(self, ticket: Ticket, caller: object) -> None:
        self.ticket = ticket
        self.caller = caller
        self.fence = 0
        self.abandoned = False
        self.place = Place.GONE
        self.admitted = False
        self.suspended = False
        self.reason: str | None = None
        self.deadline = -math.inf
        self.recheck_at = math.inf
        self.due = math.inf
        self.depth = 1
        self.event: Event | None = None
        self.on_lost: Sequence[Callable[[], Any]] = ()

    def learn(self, standing: Standing, sent: float) -> None:
        """Take in an engine's answer to a request that was sent at `sent`."""
        self.place = standing.place
        if standing.place in (Place.ADMITTED, Place.WAITING):
            self.fence = standing.fence
            self.abandoned = standing.abandoned
            self.deadline = deadline(sent, self.ticket.ttl)
            self.recheck_at = sent + standing.recheck
            self.suspended = False

    def state(self, now: float) -> LeaseState:
        return state_of(now, self.deadline, suspended=self.suspended, lost=self.reason is not None)


class _Doomed:
    """A ticket that must not stay in its queue, and until when to try."""

    __slots__ = ("backoff", "due", "ticket", "until")

    def __init__(self, ticket: Ticket, now: float, due: float, backoff: Backoff) -> None:
        self.ticket = ticket
        self.due = due
        self.until = now + ticket.ttl
        self.backoff = backoff


class Keeper:
    """Renews at a third of the ttl, all that is due in one request."""

    def __init__(self, engine: Engine, io: IO) -> None:
        self.engine = engine
        self.io = io
        self._mutex = threading.Lock()  # never held across an await, so it serves every io
        # By ttl, each in order of due time: with one ttl, whoever was renewed last is due last.
        self._wheel: dict[float, OrderedDict[str, Kept]] = {}
        self._mine: dict[tuple[str, object], Kept] = {}
        self._doomed: dict[str, _Doomed] = {}
        self._alarm: Event | None = None
        self._task: Task | None = None
        self._sleeping_until = -math.inf
        self._closing = False

    # --- what the primitives call; none of these waits

    def keep(self, kept: Kept) -> None:
        """Renew this ticket from now on."""
        with self._mutex:
            if kept.admitted:
                self._mine[kept.ticket.name, kept.caller] = kept
            self._arm(kept, self.io.now() + kept.ticket.ttl * RENEW_AT)
        self._rouse(kept.due)

    def forget(self, kept: Kept) -> bool:
        """Renew it no more; False if that was so already."""
        with self._mutex:
            return self._forget(kept)

    def held_by(self, name: str, caller: object) -> Kept | None:
        """The lease that this caller holds on a name."""
        kept = self._mine.get((name, caller))
        return kept if kept and kept.state(self.io.now()) is not LeaseState.LOST else None

    def finish(self, kept: Kept) -> None:
        """Mark a lease as given back, unless it was lost before."""
        with self._mutex:
            if kept.reason is None:
                kept.reason = RELEASED

    def lose(self, kept: Kept, reason: str) -> None:
        """Mark a lease as lost and tell everyone; only the first reason counts."""
        with self._mutex:
            if kept.reason is not None:
                return
            kept.reason = reason
            self._forget(kept)
        log.warning("lease on %r was lost: %s", kept.ticket.name, reason)
        if reason is not EVICTED:
            self.doom(kept.ticket)  # a renewal may still be under way and reach the engine
        if kept.event is not None:
            kept.event.set()
        for callback in kept.on_lost:
            try:
                callback()
            except Exception:
                log.exception("the on_lost callback for %r failed", kept.ticket.name)

    def doom(self, ticket: Ticket, after: float = 0.0) -> None:
        """Take this ticket out of its queue, in the background, however long the engine is away.

        It is done when the engine says that it took it out, or when the ttl has passed: an answer
        "not there" may be overtaken by the request that puts it there.
        """
        now = self.io.now()
        backoff = Backoff(0.05, max(0.05, ticket.ttl / 4), self.io.random)
        with self._mutex:
            self._doomed[ticket.id] = _Doomed(ticket, now, now + after, backoff)
        self._rouse(now + after)

    # --- what the primitives await

    async def discard(self, ticket: Ticket) -> None:
        """Take this ticket out of its queue: at once if the engine answers, else in the background."""
        self.engine.unpark(ticket)
        # First of all, so that a second cancellation can't lose it; but leave the first try to us.
        self.doom(ticket, after=REQUEST_TIMEOUT)
        await self.io.shield(self._drop(ticket.id))

    async def close(self) -> None:
        """Stop renewing and give back what can be given back."""
        with self._mutex:
            self._closing = True
            leases = [kept for wheel in self._wheel.values() for kept in wheel.values()]
        for kept in leases:
            self.lose(kept, "its client was closed")
        if self._alarm is not None:
            self._alarm.set()
        if self._task is not None:
            await self._task.join()
        for id in list(self._doomed):
            if not await self._drop(id):
                break  # the engine does not answer: what is left there ends with its ttl

    # --- the background

    def _arm(self, kept: Kept, due: float) -> None:
        kept.due = due
        wheel = self._wheel.get(kept.ticket.ttl)
        if wheel is None:
            wheel = self._wheel[kept.ticket.ttl] = OrderedDict()
        wheel[kept.ticket.id] = kept
        wheel.move_to_end(kept.ticket.id)

    def _forget(self, kept: Kept) -> bool:
        key = kept.ticket.name, kept.caller
        if self._mine.get(key) is kept:
            del self._mine[key]
        wheel = self._wheel.get(kept.ticket.ttl)
        if wheel is None or wheel.pop(kept.ticket.id, None) is None:
            return False
        if not wheel:
            del self._wheel[kept.ticket.ttl]
        return True

    def _rouse(self, due: float) -> None:
        with self._mutex:
            if self._closing:
                return
            if self._task is None:
                self._alarm = self.io.event()
                self._task = self.io.spawn(self._run(), "holdfast-keeper")
            elif due < self._sleeping_until and self._alarm is not None:
                self._alarm.set()

    async def _run(self) -> None:
        assert self._alarm is not None
        idle_since = self.io.now()
        while not self._closing:
            self._alarm.clear()
            now = self.io.now()
            batch, wake, first = self._survey(now)
            if batch:
                # A lease must be declared lost at its deadline, not when a hanging request gives up.
                await self._renew(batch, timeout=min(REQUEST_TIMEOUT, first - now))
            for id in [id for id, doomed in list(self._doomed.items()) if doomed.due <= now]:
                await self._drop(id)
            if batch:
                idle_since = now
                continue
            if wake < math.inf:
                idle_since = now
            elif now - idle_since >= _IDLE and self._retire():
                return
            await self._alarm.wait(min(wake - self.io.now(), _IDLE))
            self._sleeping_until = -math.inf

    def _retire(self) -> bool:
        with self._mutex:
            if self._wheel or self._doomed:
                return False
            self._task = None
            return True

    def _survey(self, now: float) -> tuple[list[Kept], float, float]:
        """What to renew, when to look again, and the first deadline; what is past its own is lost."""
        batch: list[Kept] = []
        expired: list[Kept] = []
        first = math.inf
        with self._mutex:
            wake = min((doomed.due for doomed in self._doomed.values()), default=math.inf)
            for ttl, wheel in self._wheel.items():
                slack = ttl * RENEW_AT / 10  # what is due soon goes along in the same request
                for kept in wheel.values():
                    if kept.deadline > now:
                        first = min(first, kept.deadline)
                    if kept.due > now + slack:
                        wake = min(wake, kept.due)
                        break
                    if kept.admitted and kept.deadline <= now:
                        expired.append(kept)
                    elif len(batch) < _BATCH:
                        batch.append(kept)
            self._sleeping_until = wake
        for kept in expired:
            self.lose(kept, EXPIRED)
        return batch, wake, first

    async def _renew(self, batch: list[Kept], *, timeout: float) -> None:
        sent = self.io.now()
        tickets = [kept.ticket for kept in batch]
        try:
            standings = await self.engine.renew(tickets, timeout=timeout)
        except EngineError as error:
            log.warning("could not renew %d tickets: %s", len(batch), error)
            self._postpone(batch)
            return
        gone: list[Kept] = []
        unanswered: list[Kept] = []
        with self._mutex:
            for kept, ticket, standing in zip(batch, tickets, standings, strict=True):
                if standing is None:
                    unanswered.append(kept)
                    continue
                wheel = self._wheel.get(ticket.ttl)
                if wheel is None or wheel.get(ticket.id) is not kept or kept.ticket is not ticket:
                    continue  # released, lost or changed while the request was under way
                kept.learn(standing, sent)
                if standing.place is Place.GONE and kept.admitted:
                    gone.append(kept)
                else:
                    self._arm(kept, sent + ticket.ttl * RENEW_AT)
        for kept in gone:
            self.lose(kept, EVICTED)
        self._postpone(unanswered)

    def _postpone(self, batch: list[Kept]) -> None:
        with self._mutex:
            now = self.io.now()
            jitter = 0.2 + 0.1 * self.io.random.random()
            for kept in reversed(batch):  # each to the front: the order by due time stays
                wheel = self._wheel.get(kept.ticket.ttl)
                if wheel is None or wheel.get(kept.ticket.id) is not kept:
                    continue
                kept.suspended = True
                kept.due = now + kept.ticket.ttl * RENEW_AT * jitter
                if kept.admitted:
                    kept.due = min(kept.due, kept.deadline)
                wheel.move_to_end(kept.ticket.id, last=False)

    async def _drop(self, id: str) -> bool:
        """Try to take out a doomed ticket; False if the engine did not answer."""
        doomed = self._doomed.get(id)
        if doomed is None:
            return True
        answered, done = True, False
        try:
            done = await self.engine.leave(doomed.ticket, timeout=REQUEST_TIMEOUT)
        except EngineError:
            answered = False
        now = self.io.now()
        if done or now >= doomed.until:
            self._doomed.pop(id, None)
        else:
            doomed.due = now + doomed.backoff.next()
        return answered
