"""The keeper: one thread or task per context that renews every held lease and every waiting ticket."""

from __future__ import annotations

import logging
import math
import threading
from collections.abc import Callable

from fencelock.core.errors import EngineError
from fencelock.engines.contract import Engine
from fencelock.io.contract import IO, Event, Task
from fencelock.observe.audience import Audience
from fencelock.primitives.call_site import describe
from fencelock.primitives.claim import HELD, WITHDRAWN, Claim
from fencelock.primitives.schedule import RENEW_AT, Schedule
from fencelock.primitives.slow_holders import SlowHolder, SlowHolders

log = logging.getLogger("fencelock.keeper")

_IDLE = 10.0
"""Seconds without work after which the keeper ends itself; the next ticket starts it again."""

_PAUSE = 0.5
"""Seconds of delay that people are told of. A busy machine is often late by less."""

End = Callable[[Claim, str], None]
"""Ends a claim for a reason."""


class Keeper:
    """Renews at a third of the ttl, all tickets that are due in one request.

    It tells the context, by `lose`, of leases that it finds lost. By `give_up` it hands over claims that
    another thread has ended only halfway.
    """

    def __init__(
        self,
        engine: Engine,
        io: IO,
        schedule: Schedule,
        slow: SlowHolders,
        mutex: threading.RLock,
        lose: End,
        give_up: End,
        audience: Audience,
    ) -> None:
        self.engine = engine
        self._io = io
        self._schedule = schedule
        self._slow = slow
        self._mutex = mutex
        self._lose = lose
        self._give_up = give_up
        self._audience = audience
        self._soon: list[Callable[[], None]] = []
        self._closing = False
        self._alarm: Event | None = None
        self._task: Task | None = None
        self.sleeping_until = math.inf
        """When it looks at the schedule again. A ticket that is due before that must `wake` it."""
        self.busy_until = -math.inf
        """A request is under way, and may take until then. A lease that ends before that must `wake` it."""

    def wake(self, claim: Claim, due: float) -> None:
        """Look after this claim in time: it is due at `due`. The caller holds the mutex."""
        if self._closing:
            return
        if self._task is None:
            self._alarm = self._io.event()
            self._task = self._io.spawn(self._run(), "fencelock-keeper")
        elif due < self.sleeping_until:
            self.rouse()
        if claim.state is HELD and claim.deadline < self.busy_until:
            self._io.spawn(self._watch([claim]), "fencelock-watch")

    def soon(self, act: Callable[[], None]) -> None:
        """Let the keeper's own thread or task do this soon.

        For finalizers and signal handlers: they must not take the mutex, which the code they interrupt may
        hold.
        """
        self._soon.append(act)
        self.rouse()

    def later(self, act: Callable[[], None]) -> None:
        """Let the keeper do this when it wakes up, unless `undo_later` comes first."""
        self._soon.append(act)

    def undo_later(self, act: Callable[[], None]) -> None:
        """Forget what `later` was told, if it is not done yet."""
        if act in self._soon:
            self._soon.remove(act)

    def rouse(self) -> None:
        """Wake the keeper up."""
        if self._alarm is not None:
            self._alarm.set()

    async def close(self) -> None:
        """Stop renewing."""
        self._closing = True
        self.rouse()
        if self._task is not None:
            await self._task.join()

    # --- the background

    async def _watch(self, pressing: list[Claim]) -> None:
        """Notice in time that leases expire, while the keeper waits for an answer that may come later."""
        for claim in sorted(pressing, key=lambda claim: claim.deadline):
            while claim in self._schedule and claim.deadline < self.busy_until:
                left = claim.deadline - self._io.now()
                if left <= 0:
                    self._lose(claim, claim.overdue)
                    break
                await self._io.event().wait(left)

    async def _run(self) -> None:
        assert self._alarm is not None
        idle_since = self._io.now()
        while not self._closing:
            self._alarm.clear()
            while self._soon:
                self._soon.pop()()
            now = self._io.now()
            with self._mutex:
                found = self._schedule.survey(now)
                slow, next_slow_at = self._slow.due(now)
                wake_at = min(found.wake_at, next_slow_at)
                self.sleeping_until = wake_at
            for claim in found.expired:
                self._lose(claim, claim.overdue)
            for claim in found.ended:
                self._give_up(claim, WITHDRAWN)
            if slow:
                self._warn(slow)
            if found.batch:
                self.busy_until = now + found.timeout
                if found.pressing:
                    self._io.spawn(self._watch(found.pressing), "fencelock-watch")
                await self._renew(found.batch, timeout=found.timeout)
                self._notice_pause(self.busy_until)
                self.busy_until = -math.inf
                idle_since = self._io.now()
                continue
            if wake_at < math.inf:
                idle_since = now
            elif now - idle_since >= _IDLE and self._retire():
                return
            wake_at = min(wake_at, now + _IDLE)
            await self._alarm.wait(wake_at - self._io.now())
            self.sleeping_until = -math.inf
            self._notice_pause(wake_at)

    def _warn(self, slow: list[SlowHolder]) -> None:
        from fencelock.primitives.sighting import report_held_long  # seldom needed

        for claim, since, stack in slow:
            report_held_long(claim, self._io.now() - since, describe(stack))

    def _notice_pause(self, expected: float) -> None:
        """Report that this process stood still, if it goes on much later than expected."""
        late = self._io.now() - expected
        if late >= _PAUSE:
            from fencelock.observe.events import Paused

            self._audience.report(Paused, (self.engine.label, late))

    def _retire(self) -> bool:
        with self._mutex:
            if self._schedule or self._soon:
                return False
            self._task = None
            self.sleeping_until = math.inf
            return True

    async def _renew(self, batch: list[Claim], *, timeout: float) -> None:
        sent = self._io.now()
        tickets = [claim.ticket for claim in batch]
        try:
            standings = await self.engine.renew(tickets, timeout=timeout)
        except Exception as error:  # even what no engine should raise must not end all renewals
            unexpected = not isinstance(error, EngineError)
            log.warning("could not renew %d tickets: %s", len(batch), error, exc_info=unexpected)
            self._postpone(batch)
            return
        lost: list[tuple[Claim, str]] = []
        unanswered: list[Claim] = []
        renewed: list[tuple[Claim, float, bool]] = []
        now = self._io.now()
        with self._mutex:
            for claim, ticket, standing in zip(batch, tickets, standings, strict=True):
                if standing is None:
                    unanswered.append(claim)
                    continue
                if claim not in self._schedule or claim.ticket is not ticket:
                    continue  # released, lost or changed while the request was under way
                margin, suspended = claim.deadline - now, claim.suspended
                reason = claim.answered(standing, sent, now)
                if reason is None:
                    self._schedule.renewed(claim, sent)
                    if claim.sighting is not None:
                        renewed.append((claim, margin, suspended))
                else:
                    lost.append((claim, reason))
        for claim, reason in lost:
            self._lose(claim, reason)
        for claim, margin, suspended in renewed:
            if claim.sighting is not None:
                claim.sighting.renewed(claim, margin, suspended)
        self._postpone(unanswered)

    def _postpone(self, batch: list[Claim]) -> None:
        suspended: list[Claim] = []
        with self._mutex:
            now = self._io.now()
            jitter = 0.2 + 0.1 * self._io.random.random()
            for claim in batch:
                if claim in self._schedule:
                    if not claim.suspended:
                        suspended.append(claim)
                    claim.unrenewed()
                    self._schedule.postpone(claim, now + claim.ticket.ttl * RENEW_AT * jitter)
        for claim in suspended:
            if claim.sighting is not None:
                claim.sighting.suspended(claim, claim.deadline - now)
