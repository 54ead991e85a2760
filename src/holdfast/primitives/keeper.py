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
from holdfast.core.errors import EngineError, HoldfastError
from holdfast.core.lease import LeaseState, state_of
from holdfast.core.ticket import Departure, Place, Standing, Ticket
from holdfast.engines.contract import Engine
from holdfast.io.contract import IO, Event, Task

log = logging.getLogger("holdfast")

RENEW_AT = 1 / 3
"""The part of its ttl after which a ticket is renewed: two more tries fit before it expires."""

_SLACK = RENEW_AT / 10
"""The part of its ttl by which a renewal may be early, to go along with others in one request."""

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


_UNORDERED = 0.0
"""The key of the wheel that is not in order of due time; no ttl is 0."""


class Kept:
    """A ticket that the keeper renews, and all that is known of it."""

    __slots__ = (
        "abandoned",
        "admitted",
        "answered",
        "caller",
        "deadline",
        "depth",
        "due",
        "event",
        "fence",
        "heard",
        "on_lost",
        "place",
        "reason",
        "recheck_at",
        "suspended",
        "ticket",
        "unanswered",
        "wheel",
    )

    def __init__(self, ticket: Ticket, caller: object) -> None:
        self.ticket = ticket
        self.caller = caller
        self.fence = 0
        self.abandoned = False
        self.place = Place.GONE
        self.admitted = False
        self.suspended = False
        self.unanswered = 0
        self.reason: str | None = None
        self.deadline = -math.inf
        self.heard = self.answered = -math.inf
        self.recheck_at = math.inf
        self.due = math.inf
        self.wheel: float | None = None
        self.depth = 1
        self.event: Event | None = None
        self.on_lost: Sequence[Callable[[], Any]] = ()

    def learn(self, standing: Standing, sent: float, now: float) -> str | None:
        """Take in an engine's answer to a request that was sent at `sent`.

        Says why the lease is lost, if it is: it is too late, or the ticket is gone, or a failover
        has taken back what admitted it, or a late copy of an old request has put it into the queue
        again after it was taken out.
        """
        if self.admitted and now >= self.deadline:
            return EXPIRED
        if self.admitted and (standing.place is not Place.ADMITTED or standing.fence != self.fence):
            # Two requests that were under way together may have been carried out in either order.
            return EVICTED if sent >= self.answered else None
        if sent < self.heard:
            return None  # something newer is known already
        self.heard, self.answered = sent, now
        self.place = standing.place
        if standing.place in (Place.ADMITTED, Place.WAITING):
            self.fence = standing.fence
            if standing.place is Place.ADMITTED:
                self.abandoned = standing.abandoned
            self.deadline = deadline(sent, self.ticket.ttl)
            self.recheck_at = sent + standing.recheck
            self.suspended = False
        return None

    def departure(self) -> Departure:
        """How this ticket departs, if it has to go now."""
        if not self.admitted:
            return Departure.WITHDRAWN
        return Departure.RELEASED if self.reason == RELEASED else Departure.LOST

    def state(self, now: float) -> LeaseState:
        if self.reason == RELEASED:
            return LeaseState.RELEASED
        return state_of(now, self.deadline, suspended=self.suspended, lost=self.reason is not None)


class _Doomed:
    """A ticket that must not stay in its queue, and until when to try."""

    __slots__ = ("backoff", "certain", "departure", "due", "ticket", "until")

    def __init__(self, kept: Kept, now: float, due: float, backoff: Backoff) -> None:
        self.ticket = kept.ticket
        self.departure = kept.departure()
        self.certain = not kept.unanswered
        self.due = due
        self.until = now + kept.ticket.ttl
        self.backoff = backoff


class Keeper:
    """Renews at a third of the ttl, all that is due in one request."""

    def __init__(self, engine: Engine, io: IO) -> None:
        self.engine = engine
        self.io = io
        self._mutex = threading.Lock()  # never held across an await, so it serves every io
        # By ttl, each in order of due time: with one ttl, whoever was renewed last is due last.
        # Those that are out of order, because a renewal failed, have a wheel of their own.
        self._wheel: dict[float, OrderedDict[str, Kept]] = {}
        self._mine: dict[tuple[str, object], Kept] = {}
        self._doomed: dict[str, _Doomed] = {}
        self._alarm: Event | None = None
        self._task: Task | None = None
        self._sleeping_until = -math.inf
        self._pace = math.inf
        self._busy_until = -math.inf
        self._sweeper: Task | None = None
        self._sweep: Event | None = None
        self._closing = False

    # --- what the primitives call; none of these waits

    def verify(self) -> None:
        """Raise unless this client may be used here and now."""
        self.io.verify()
        if self._closing:
            raise HoldfastError("this client is closed: make a new one")

    def keep(self, kept: Kept) -> None:
        """Renew this ticket from now on, unless it has ended already."""
        with self._mutex:
            if kept.reason is not None:
                return
            if kept.admitted:
                self._mine[kept.ticket.name, kept.caller] = kept
            if kept.wheel is None:
                ttl, late = kept.ticket.ttl, self.io.now() - kept.heard
                due = kept.heard + ttl * RENEW_AT
                self._arm(kept, due, ttl if late < ttl * _SLACK else _UNORDERED)
            else:  # it has been renewed while it waited
                kept.due = min(kept.due, kept.deadline)
        self._rouse(kept)

    def forget(self, kept: Kept) -> bool:
        """Renew it no more; False if that was so already."""
        with self._mutex:
            return self._forget(kept)

    def change(self, kept: Kept, ttl: float) -> None:
        """Ask for another ttl from now on."""
        with self._mutex:
            kept.ticket = kept.ticket._replace(ttl=ttl)
            now = self.io.now()
            # Until the engine has confirmed it, count on the shorter of the two.
            kept.deadline = min(kept.deadline, deadline(now, ttl))
            if kept.wheel is not None:
                self._arm(kept, min(kept.due, now + ttl * RENEW_AT), _UNORDERED)
        self._rouse(kept)

    def held_by(self, name: str, caller: object) -> Kept | None:
        """The lease that this caller holds on a name."""
        kept = self._mine.get((name, caller))
        return kept if kept and kept.reason is None and self.io.now() < kept.deadline else None

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
        self.doom(kept)  # a request may still be under way and reach the engine
        if kept.event is not None:
            kept.event.set()
        for callback in kept.on_lost:
            try:
                callback()
            except Exception:
                log.exception("the on_lost callback for %r failed", kept.ticket.name)
        log.warning("lease on %r was lost: %s", kept.ticket.name, reason)

    def doom(self, kept: Kept) -> None:
        """Take this ticket out of its queue, in the background, however long the engine is away.

        It is done when the engine says that it took it out, or when the ttl has passed: an answer
        "not there" may be overtaken by the request that puts it there. So may any answer, as long
        as there is a request to join the queue of which nothing was heard.
        """
        self._condemn(kept, 0.0)
        self._start_sweeper()

    # --- what the primitives await

    async def discard(self, kept: Kept, patience: float) -> None:
        """Take this ticket out of its queue: now if the engine answers, else in the background."""
        ticket = kept.ticket
        self.engine.unpark(ticket)
        # First of all, so that a second cancellation can't lose it; but leave the first try to us.
        self._condemn(kept, patience)
        try:
            if patience:
                await self.io.shield(self._drop(ticket.id, timeout=patience))
        finally:
            if ticket.id in self._doomed:
                self._start_sweeper()

    async def close(self) -> None:
        """Stop renewing and give back what can be given back."""
        with self._mutex:
            self._closing = True
            leases = [kept for wheel in self._wheel.values() for kept in wheel.values()]
        for kept in leases:
            self.lose(kept, "its client was closed")
        for event, task in (self._alarm, self._task), (self._sweep, self._sweeper):
            if event is not None:
                event.set()
            if task is not None:
                await task.join()
        for id in list(self._doomed):
            if not await self._drop(id):
                break  # the engine does not answer: what is left there ends with its ttl

    # --- the background

    def _arm(self, kept: Kept, due: float, key: float) -> None:
        if kept.wheel != key:
            self._disarm(kept)
        wheel = self._wheel.get(key)
        if wheel is None:
            wheel = self._wheel[key] = OrderedDict()
        kept.due, kept.wheel = due, key
        wheel[kept.ticket.id] = kept
        wheel.move_to_end(kept.ticket.id)

    def _disarm(self, kept: Kept) -> bool:
        key, kept.wheel = kept.wheel, None
        if key is None:
            return False
        wheel = self._wheel[key]
        del wheel[kept.ticket.id]
        if not wheel:
            del self._wheel[key]
        return True

    def _forget(self, kept: Kept) -> bool:
        key = kept.ticket.name, kept.caller
        if self._mine.get(key) is kept:
            del self._mine[key]
        return self._disarm(kept)

    def _rouse(self, kept: Kept) -> None:
        with self._mutex:
            if self._closing:
                return
            if self._task is None:
                self._alarm = self.io.event()
                self._task = self.io.spawn(self._run(), "holdfast-keeper")
            elif kept.due < self._sleeping_until and self._alarm is not None:
                self._alarm.set()
            self._pace = min(self._pace, kept.ticket.ttl * RENEW_AT)
            if kept.admitted and kept.deadline < self._busy_until:
                self.io.spawn(self._watch(kept), "holdfast-watch")

    async def _watch(self, kept: Kept) -> None:
        """Tell a lease's end in time, though the keeper waits for an answer that may come later."""
        while kept.wheel is not None and kept.deadline < self._busy_until:
            left = kept.deadline - self.io.now()
            if left <= 0:
                self.lose(kept, EXPIRED)
                return
            await self.io.event().wait(left)

    async def _run(self) -> None:
        assert self._alarm is not None
        idle_since = self.io.now()
        while not self._closing:
            self._alarm.clear()
            now = self.io.now()
            batch, wake, patience = self._survey(now)
            if batch:
                self._busy_until = now + patience
                await self._renew(batch, timeout=patience)
                self._busy_until = -math.inf
                idle_since = self.io.now()
                continue
            if wake < math.inf:
                idle_since = now
            elif now - idle_since >= _IDLE and self._retire():
                return
            await self._alarm.wait(min(wake - self.io.now(), _IDLE))
            self._sleeping_until = -math.inf

    def _retire(self) -> bool:
        with self._mutex:
            if self._wheel:
                return False
            self._task = None
            return True

    def _condemn(self, kept: Kept, after: float) -> None:
        now, ticket = self.io.now(), kept.ticket
        backoff = Backoff(0.05, max(0.05, ticket.ttl / 4), self.io.random)
        with self._mutex:
            self._doomed[ticket.id] = _Doomed(kept, now, now + after, backoff)

    def _start_sweeper(self) -> None:
        with self._mutex:
            if self._closing:
                return
            if self._sweeper is None:
                self._sweep = self.io.event()
                self._sweeper = self.io.spawn(self._run_sweeper(), "holdfast-sweeper")
            elif self._sweep is not None:
                self._sweep.set()

    async def _run_sweeper(self) -> None:
        """Take out doomed tickets as long as there are any: apart, for leases come first."""
        assert self._sweep is not None
        while not self._closing:
            self._sweep.clear()
            with self._mutex:
                if not self._doomed:
                    self._sweeper = None
                    return
                id, doomed = min(self._doomed.items(), key=lambda item: item[1].due)
            wait = doomed.due - self.io.now()
            if wait > 0:
                await self._sweep.wait(wait)
            else:
                await self._drop(id)

    def _survey(self, now: float) -> tuple[list[Kept], float, float]:
        """What to renew, when to look again, and how long a request may take now.

        What is past its deadline is lost: at that moment, not when a request that hangs gives up.
        Nor may such a request use up the time in which others are to be renewed.
        """
        batch: list[Kept] = []
        expired: list[Kept] = []
        patience = REQUEST_TIMEOUT
        with self._mutex:
            wake = math.inf
            for key, wheel in self._wheel.items():
                for kept in wheel.values():
                    ttl = kept.ticket.ttl
                    patience = min(patience, ttl * RENEW_AT)
                    if kept.admitted and kept.deadline > now:
                        patience = min(patience, kept.deadline - now)
                    if kept.due > now + ttl * _SLACK:
                        wake = min(wake, kept.due)
                        if key == _UNORDERED:
                            continue
                        break
                    if kept.admitted and kept.deadline <= now:
                        expired.append(kept)
                    elif len(batch) < _BATCH:
                        batch.append(kept)
            # A lock that was used just now is likely to be used again soon. Who sleeps no longer than
            # its next lease could need does not have to be woken for that, each time anew.
            wake = min(wake, now + self._pace)
            self._pace = math.inf
            self._sleeping_until = wake
        for kept in expired:
            self.lose(kept, EXPIRED)
        return batch, wake, patience

    async def _renew(self, batch: list[Kept], *, timeout: float) -> None:
        sent = self.io.now()
        tickets = [kept.ticket for kept in batch]
        try:
            standings = await self.engine.renew(tickets, timeout=timeout)
        except EngineError as error:
            log.warning("could not renew %d tickets: %s", len(batch), error)
            self._postpone(batch)
            return
        lost: list[tuple[Kept, str]] = []
        unanswered: list[Kept] = []
        now = self.io.now()
        with self._mutex:
            for kept, ticket, standing in zip(batch, tickets, standings, strict=True):
                if standing is None:
                    unanswered.append(kept)
                    continue
                if kept.wheel is None or kept.ticket is not ticket:
                    continue  # released, lost or changed while the request was under way
                reason = kept.learn(standing, sent, now)
                if reason is None:
                    # An answer that could not be trusted leaves it due at once.
                    key = ticket.ttl if kept.heard >= sent else _UNORDERED
                    self._arm(kept, kept.heard + ticket.ttl * RENEW_AT, key)
                else:
                    lost.append((kept, reason))
        for kept, reason in lost:
            self.lose(kept, reason)
        self._postpone(unanswered)

    def _postpone(self, batch: list[Kept]) -> None:
        with self._mutex:
            now = self.io.now()
            jitter = 0.2 + 0.1 * self.io.random.random()
            for kept in batch:
                if kept.wheel is None:
                    continue
                kept.suspended = True
                due = now + kept.ticket.ttl * RENEW_AT * jitter
                self._arm(kept, min(due, kept.deadline) if kept.admitted else due, _UNORDERED)

    async def _drop(self, id: str, *, timeout: float = REQUEST_TIMEOUT) -> bool:
        """Try to take out a doomed ticket; False if the engine did not answer."""
        doomed = self._doomed.get(id)
        if doomed is None:
            return True
        answered, done = True, False
        try:
            done = await self.engine.leave(
                doomed.ticket, timeout=timeout, departure=doomed.departure
            )
        except HoldfastError:
            answered = False
        now = self.io.now()
        if (done and doomed.certain) or now >= doomed.until:
            self._doomed.pop(id, None)
        else:
            doomed.due = now + doomed.backoff.next()
        return answered
