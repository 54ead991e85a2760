"""The keeper: one thread or task per client that renews every lease and every waiting ticket.

It also notices when a lease is lost, and tells everyone.
"""

from __future__ import annotations

import logging
import math
import threading
from collections import OrderedDict
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from operator import attrgetter
from typing import Any

from fencelock.core.durations import deadline
from fencelock.core.errors import EngineError, FencelockError
from fencelock.core.ticket import Ticket
from fencelock.engines.contract import Engine
from fencelock.io.contract import IO, Event, Task
from fencelock.io.process import Origin
from fencelock.primitives.kept import CLOSED, EXPIRED, RELEASED, WITHDRAWN, Kept
from fencelock.primitives.sweeper import REQUEST_TIMEOUT, Sweeper

log = logging.getLogger("fencelock")

RENEW_AT = 1 / 3
"""The part of its ttl after which a ticket is renewed: two more tries fit before it expires."""

_SLACK = RENEW_AT / 10
"""The part of its ttl by which a renewal may be early, to go along with others in one request."""

_BATCH = 1_000
"""Tickets per renewal request: bounds how long one request keeps an engine busy."""

_LEAST = 0.05
"""Seconds that a renewal may take at the least: one lease that is about to end must not be the reason why
a thousand others are asked for in vain."""

_MOMENT = 0.005
"""Seconds between two looks whether the requests under way have ended, when a client is closed."""

_IDLE = 10.0
"""Seconds without work after which the keeper ends itself; the next ticket starts it again."""


_UNORDERED = 0.0
"""The key of the wheel that is not in order of due time; no ttl is 0."""

_FRESH = -1.0
"""The key of those that are on no wheel yet."""

_due = attrgetter("due")


class Keeper:
    """Renews at a third of the ttl, all that is due in one request."""

    def __init__(self, engine: Engine, io: IO) -> None:
        self.engine = engine
        self.io = io
        self.default_ttl = engine.traits.default_ttl
        self.sweeper = Sweeper(engine, io)
        self._origin = Origin()
        self._errands: list[Callable[[], None]] = []
        # Never held across an await, so it serves every io. Re-entrant, for a signal handler or a finalizer
        # may release or acquire in the middle of anything that its own thread does.
        self._mutex = threading.RLock()
        self._held_here = self._mutex._is_owned  # type: ignore[attr-defined]
        # By ttl, each in order of due time: with one ttl, whoever was renewed last is due last.
        # Those that are out of order, because a renewal failed, have a wheel of their own.
        self._wheel: dict[float, OrderedDict[str, Kept]] = {}
        # Most are given back before the keeper comes by: those never get onto a wheel.
        self._fresh: dict[str, Kept] = {}
        self._came_by = -math.inf  # whoever is on a wheel in order was heard of until then
        self.mine: dict[tuple[str, object], Kept] = {}
        """What is held, by its name and who holds it."""
        self._alarm: Event | None = None
        self._task: Task | None = None
        self._sleeping_until = math.inf
        self._pace = math.inf
        self._busy_until = -math.inf
        self.entering: dict[str, Kept] = {}
        """Tickets whose first request is under way: nobody keeps them yet."""
        self.closing = False
        """Whether this client is closed, or about to be."""

    @property
    def idle(self) -> bool:
        """Whether there is nothing to keep."""
        return not (self._fresh or self._wheel or self.mine)

    @property
    def here(self) -> bool:
        """Whether this is the process in which it was made, and not a child of that."""
        return self._origin.here

    # --- what the primitives call; none of these waits

    def verify(self) -> None:
        """Raise unless this client may be used here and now."""
        self.io.verify()
        if self.closing:
            raise _closed()

    def keep(self, kept: Kept) -> None:
        """Renew this ticket from now on, unless it has ended already."""
        self._origin.verify()  # a signal handler may have forked while the engine was asked
        with self._mutex:
            if kept.reason is not None:
                return
            if self.closing:
                raise _closed()
            ticket = kept.ticket
            if kept.admitted:
                self.mine[ticket.name, kept.caller] = kept
            if kept.wheel is None:
                interval = ticket.ttl * RENEW_AT
                kept.due, kept.wheel = kept.heard + interval, _FRESH
                self._fresh[ticket.id] = kept
                if interval < self._pace:
                    self._pace = interval
            elif kept.deadline < kept.due:  # it has been renewed while it waited
                kept.due = kept.deadline
            if kept.due < self._sleeping_until or kept.deadline < self._busy_until:
                self._rouse(kept)

    def forget(self, kept: Kept) -> None:
        """Renew it no more."""
        if self._held_here():  # we interrupt somebody who may be going through all of them
            self.later(lambda: self.forget(kept))
            return
        with self._mutex:
            key = kept.ticket.name, kept.caller
            if self.mine.get(key) is kept:
                del self.mine[key]
            self._disarm(kept)

    def later(self, act: Callable[[], None]) -> None:
        """Let the keeper's own thread or task do this soon. For finalizers, and for code that interrupts us:
        these must not take the mutex."""
        self._errands.append(act)
        if self._alarm is not None:
            self._alarm.set()

    def change(self, kept: Kept, ttl: float) -> None:
        """Ask for another ttl from now on."""
        with self._mutex:
            kept.ticket = kept.ticket._replace(ttl=ttl)
            now = self.io.now()
            # Until the engine has confirmed it, count on the shorter of the two.
            kept.deadline = min(kept.deadline, deadline(now, ttl))
            if kept.wheel is not None:
                self._arm(kept, min(kept.due, now + ttl * RENEW_AT), _UNORDERED)
            self._pace = min(self._pace, ttl * RENEW_AT)
            self._rouse(kept)

    def turn(self, kept: Kept, ticket: Ticket) -> None:
        """The engine knows it with this share and owner from now on."""
        with self._mutex:
            kept.ticket = kept.ticket._replace(share=ticket.share, owner=ticket.owner)

    def held_by(self, name: str, caller: object) -> Kept | None:
        """The lease that this caller holds on a name."""
        kept = self.mine.get((name, caller))
        return kept if kept is not None and self.is_good(kept) else None

    def is_good(self, kept: Kept) -> bool:
        """Whether a lease that was held just now still is."""
        return kept.reason is None and self.io.now() < kept.deadline

    def give_up(self, kept: Kept, reason: str) -> None:
        """End a lease quietly: no event, no callback. The sweeper takes its ticket out.

        For a caller that was interrupted before it had the lease, or while it gave it back. If it has
        ended already, nothing happens.
        """
        if not self.here:  # a forked child: it is its parent's, as is perhaps the mutex
            return
        if kept.reason is not None and kept.wheel is None and kept not in self.sweeper:
            return
        # First of all: should this be interrupted, it can be done again.
        self.sweeper.condemn(kept, kept.departure(kept.reason or reason), 0.0)
        with self._mutex:
            kept.reason = kept.reason or reason
        self.forget(kept)
        self.sweeper.start()

    def on_loss(self, kept: Kept, callback: Callable[[], Any]) -> None:
        """Call this when the lease is lost; at once if it was lost before anybody could ask for that."""
        with self._mutex:
            if kept.reason is None:
                kept.on_lost = (*kept.on_lost, callback)
                return
        if kept.reason != RELEASED:
            _call(callback, kept)

    def event_of(self, kept: Kept) -> Event:
        """The one event that is set when this lease is lost."""
        with self._mutex:
            if kept.event is None:
                kept.event = self.io.event()
                if kept.reason not in (None, RELEASED):
                    kept.event.set()
            return kept.event

    def lose(self, kept: Kept, reason: str) -> None:
        """Mark a lease as lost and tell everyone; only the first reason counts."""
        if not self.here:  # as above: the child learns it, and nobody else
            kept.reason = kept.reason or reason
            return
        tell = partial(self._tell, kept)
        with self._mutex:
            if kept.reason is not None:
                return
            self._errands.append(tell)  # should this thread be interrupted
            kept.reason = reason
        tell()
        with suppress(ValueError):
            self._errands.remove(tell)

    def _tell(self, kept: Kept) -> None:
        reason = kept.reason
        if reason is None:
            return
        self.forget(kept)
        self.sweeper.doom(kept)  # a request may still be under way and reach the engine
        if kept.event is not None:
            kept.event.set()
        callbacks, kept.on_lost = kept.on_lost, ()
        for callback in callbacks:
            _call(callback, kept)
        accident = reason != CLOSED and not kept.quiet
        level = logging.WARNING if accident else logging.DEBUG
        log.log(level, "lease on %r was lost: %s", kept.ticket.name, reason)

    def every(self) -> list[Kept]:
        """All tickets that are kept, at this moment."""
        with self._mutex:
            wheels = (self._fresh, *self._wheel.values())
            return [kept for wheel in wheels for kept in wheel.values()]

    async def close(self) -> None:
        """Stop renewing and give back what can be given back."""
        with self._mutex:
            self.closing = True
        # What is admitted from now on is refused by `keep`, and given back before the engine is closed.
        until = self.io.now() + REQUEST_TIMEOUT
        while self.entering and self.io.now() < until:
            await self.io.event().wait(_MOMENT)
        for kept in self.every():
            self.lose(kept, CLOSED)
        if self._alarm is not None:
            self._alarm.set()
        if self._task is not None:
            await self._task.join()
        await self.sweeper.close()

    # --- the background

    def _arm(self, kept: Kept, due: float, key: float) -> None:
        if kept.wheel != key:
            self._disarm(kept)
        kept.due, kept.wheel = due, key  # first: whoever is interrupted below can still be disarmed
        wheel = self._wheel.get(key)
        if wheel is None:
            wheel = self._wheel[key] = OrderedDict()
        wheel[kept.ticket.id] = kept
        wheel.move_to_end(kept.ticket.id)

    def _take_over(self) -> None:
        """Put those onto their wheels that have come since this was last done."""
        # They have come as they were answered, and some answers take long.
        for kept in sorted(self._fresh.values(), key=_due):
            ttl = kept.ticket.ttl
            in_order = kept.due > self._came_by + ttl * (RENEW_AT - _SLACK)
            self._arm(kept, kept.due, ttl if in_order else _UNORDERED)
        self._came_by = self.io.now()

    def _disarm(self, kept: Kept) -> None:
        key, id = kept.wheel, kept.ticket.id
        if key == _FRESH:
            self._fresh.pop(id, None)
        elif key is not None and (wheel := self._wheel.get(key)) is not None:
            wheel.pop(id, None)
            if not wheel:
                del self._wheel[key]
        kept.wheel = None

    def _rouse(self, kept: Kept) -> None:
        if self.closing:
            return
        if self._task is None:
            self._alarm = self.io.event()
            self._task = self.io.spawn(self._run(), "fencelock-keeper")
        elif kept.due < self._sleeping_until and self._alarm is not None:
            self._alarm.set()
        if kept.admitted and kept.deadline < self._busy_until:
            self.io.spawn(self._watch([kept]), "fencelock-watch")

    async def _watch(self, pressing: list[Kept]) -> None:
        """Tell leases' ends in time, though the keeper waits for an answer that may come later."""
        for kept in sorted(pressing, key=lambda kept: kept.deadline):
            while kept.wheel is not None and kept.deadline < self._busy_until:
                left = kept.deadline - self.io.now()
                if left <= 0:
                    self.lose(kept, EXPIRED)
                    break
                await self.io.event().wait(left)

    async def _run(self) -> None:
        assert self._alarm is not None
        idle_since = self.io.now()
        while not self.closing:
            self._alarm.clear()
            while self._errands:
                self._errands.pop()()
            now = self.io.now()
            batch, wake, patience, pressing = self._survey(now)
            if batch:
                self._busy_until = now + patience
                if pressing:
                    self.io.spawn(self._watch(pressing), "fencelock-watch")
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
            if not self.idle:
                return False
            self._task = None
            self._sleeping_until = math.inf
            return True

    def _survey(self, now: float) -> tuple[list[Kept], float, float, list[Kept]]:
        """What to renew, when to look again, how long a request may take now, and what may end meanwhile.

        What is past its deadline is lost: at that moment, not when a request that hangs gives up.
        Nor may such a request use up the time in which others are to be renewed.
        """
        batch: list[Kept] = []
        expired: list[Kept] = []
        ended: list[Kept] = []
        pressing: list[Kept] = []
        patience = REQUEST_TIMEOUT
        with self._mutex:
            self._take_over()
            wake = math.inf
            for key, wheel in self._wheel.items():
                crowd = key != _UNORDERED and len(wheel) > _BATCH
                turn = _turn(wheel, key) if crowd else math.inf
                for kept in wheel.values():
                    if kept.reason is not None:
                        ended.append(kept)  # a thread that ended it was interrupted halfway
                        continue
                    ttl = kept.ticket.ttl
                    patience = min(patience, ttl * RENEW_AT)
                    if kept.admitted and kept.deadline > now:
                        patience = min(patience, max(kept.deadline - now, _LEAST))
                        if kept.deadline < now + _LEAST:
                            pressing.append(kept)
                    if now < turn and (crowd or kept.due > now + ttl * _SLACK):
                        wake = min(wake, kept.due, turn)
                        if key == _UNORDERED:
                            continue
                        break
                    if kept.admitted and kept.deadline <= now:
                        expired.append(kept)
                    elif len(batch) < _BATCH:
                        batch.append(kept)
                    elif crowd and kept.deadline > now:
                        break  # those behind it have more time, and may be a hundred thousand
            # A lock that was used just now is likely to be used again soon. Who sleeps no longer than
            # its next lease could need does not have to be woken for that, each time anew.
            wake = min(wake, now + self._pace)
            self._pace = math.inf
            self._sleeping_until = wake
        for kept in expired:
            self.lose(kept, EXPIRED)
        for kept in ended:
            self.give_up(kept, WITHDRAWN)
        return batch, wake, patience, pressing

    async def _renew(self, batch: list[Kept], *, timeout: float) -> None:
        sent = self.io.now()
        tickets = [kept.ticket for kept in batch]
        try:
            standings = await self.engine.renew(tickets, timeout=timeout)
        except Exception as error:  # even what no engine should raise must not end all renewals
            unexpected = not isinstance(error, EngineError)
            log.warning("could not renew %d tickets: %s", len(batch), error, exc_info=unexpected)
            self._postpone(batch)
            return
        lost: list[tuple[Kept, str]] = []
        unanswered: list[Kept] = []
        now = self.io.now()
        with self._mutex:
            self._came_by = sent
            for kept, ticket, standing in zip(batch, tickets, standings, strict=True):
                if standing is None:
                    unanswered.append(kept)
                    continue
                if kept.wheel is None or kept.ticket is not ticket:
                    continue  # released, lost or changed while the request was under way
                reason = kept.learn(standing, sent, now)
                if reason is None:
                    # An answer that could not be trusted leaves it due at once; one who has asked by
                    # itself meanwhile is due later than those of this batch that come behind it.
                    key = ticket.ttl if kept.heard == sent else _UNORDERED
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


def _call(callback: Callable[[], Any], kept: Kept) -> None:
    try:
        callback()
    except (Exception, SystemExit):  # which must not end the keeper
        log.exception("the on_lost callback for %r failed", kept.ticket.name)


def _closed() -> FencelockError:
    return FencelockError("this client is closed: make a new one")


def _turn(wheel: OrderedDict[str, Kept], ttl: float) -> float:
    """When the next request is to go of a wheel that fills several: when its first ticket is due, or
    sooner, so that what was taken in one burst is spread over the interval and not renewed in one for ever.
    """
    interval = ttl * RENEW_AT
    first, newest = next(iter(wheel.values())), next(reversed(wheel.values()))
    pace = interval * _BATCH / len(wheel)
    # Not before half of its time: most leases are given back soon, and need no renewal at all.
    return min(first.due, max(newest.heard + pace, first.due - interval / 2))
