"""A context: what a client has in one process, and with asyncio in one event loop."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from fencelock.core.durations import MARGIN
from fencelock.core.errors import EngineError, FencelockError
from fencelock.core.ticket import Departure, Owner
from fencelock.engines.contract import Engine
from fencelock.io.contract import IO, Event
from fencelock.io.reentry import ownership
from fencelock.observe.audience import Audience
from fencelock.primitives.call_site import CallSite, place_of
from fencelock.primitives.claim import (
    CLOSED,
    DETACHED,
    DROPPED,
    LOOP_ENDED,
    OVERHELD,
    PROGRAM_ENDED,
    RAN_OUT,
    RELEASED,
    Claim,
)
from fencelock.primitives.keeper import Keeper
from fencelock.primitives.schedule import RENEW_AT, Schedule
from fencelock.primitives.slow_holders import SlowHolder, SlowHolders
from fencelock.primitives.sweeper import REQUEST_TIMEOUT, Sweeper

if TYPE_CHECKING:
    from fencelock.primitives.bounded import BoundedClaim
    from fencelock.primitives.sighting import Sighting

log = logging.getLogger("fencelock.lease")

_CLOSING_PAUSE = 0.005
"""Seconds between two looks whether the requests under way have ended, when a context is closed."""


class Context:
    """The engine, the io, the keeper and the sweeper of a client, and what its callers hold.

    Primitives ask `Contexts.here()` for it each time they are used. A claim belongs to one context for ever.
    """

    def __init__(self, engine: Engine, io: IO, audience: Audience | None = None) -> None:
        self.engine = engine
        """The engine to ask. While there are observers, it tells them of each request."""
        self.bare_engine = engine
        """The engine itself."""
        self.io = io
        self.audience = audience or Audience()
        self.sighting: type[Sighting] | None = None
        """Makes the sighting of a new claim. None if there are no observers."""
        self.pid = os.getpid()
        self.foreign = False
        """Whether this process is a forked child: the context, its threads and its leases are the
        parent's."""
        self.closing = False
        """Whether the client is closed here, or about to be."""
        self.contexts: object = None
        """The `Contexts` to which this one belongs. A lease may outlive its client, and by this it keeps them
        alive: a fork and the end of the program must still find it."""
        self.held: dict[tuple[str, object], Claim] = {}
        """The claims that are held, by name and caller."""
        self.entering: dict[str, Claim] = {}
        """Claims whose first request is under way: nobody renews them yet."""
        self.sweeper = Sweeper(engine, io)
        # Never held across an await, so it serves every io. Re-entrant, because a signal handler or a
        # finalizer may release or acquire in the middle of anything that its own thread does.
        self._mutex = threading.RLock()
        self._interrupting = ownership(self._mutex)
        self._schedule = Schedule()
        self._slow = SlowHolders()
        self._keeper = Keeper(
            engine,
            io,
            self._schedule,
            self._slow,
            self._mutex,
            self.lose,
            self.give_up,
            self.audience,
        )
        self.audience.attach(self)

    @property
    def idle(self) -> bool:
        """Whether nothing is held, and nothing is renewed."""
        return not (self._schedule or self.held)

    def listening_changed(self) -> None:
        """There are observers now, or none any more."""
        if self.audience.listening:
            from fencelock.primitives.sighting import Sighting  # few programs need it

            self.sighting = Sighting
            self.engine = self.bare_engine.observed(self.audience, self.io.now)
        else:
            self.sighting, self.engine = None, self.bare_engine
        self._keeper.engine = self.sweeper.engine = self.engine

    def engines(self) -> set[tuple[str, str]]:
        """The kind and the guarantee of each engine that it uses."""
        return {(each.label, each.traits.guarantee) for each in self.bare_engine.parts()}

    def verify(self) -> None:
        """Raise unless this context can be used here and now."""
        self.io.verify()
        if self.closing:
            raise FencelockError("this client is closed: make a new one")

    def owned(self, owner: Owner) -> Owner:
        """The owner as this process: a client may have been made in its parent."""
        return owner if owner.pid == self.pid else owner._replace(pid=self.pid)

    # --- holding; none of these waits

    def hold(self, claim: Claim, now: float) -> None:
        """The caller has the lease now. Renew it from now on, unless it has ended already."""
        if self.foreign:  # a signal handler may have forked while the engine was asked
            self.verify()
        with self._mutex:
            if claim.reason is None:
                if self.closing:
                    self.verify()
                claim.held(now)
                ticket, schedule, keeper = claim.ticket, self._schedule, self._keeper
                self.held[ticket.name, claim.caller] = claim
                # As `Schedule.add`, written out for a claim that did not wait.
                if ticket.id in schedule.entries:
                    due = schedule.add(claim)
                else:
                    schedule.new[ticket.id] = claim
                    if ticket.ttl < schedule.shortest_ttl:
                        schedule.shortest_ttl = ticket.ttl
                    due = claim.sent_at + ticket.ttl * RENEW_AT
                if due < keeper.sleeping_until or claim.deadline < keeper.busy_until:
                    keeper.wake(claim, due)

    def pass_on(self, claim: Claim) -> None:
        """The caller has the permit of a rate. It is over for this client: the engine counts its time."""
        if self.foreign:
            self.verify()
        self.forget(claim)
        claim.ended(RELEASED)

    def keep(self, claim: Claim) -> None:
        """Renew a ticket that waits from now on, unless it has ended already."""
        self.verify()
        with self._mutex:
            if claim.reason is None:
                self._keeper.wake(claim, self._schedule.add(claim))

    def forget(self, claim: Claim) -> None:
        """Renew it no more."""
        if self._interrupting():  # we interrupt code that may go through all claims
            self._keeper.soon(partial(self.forget, claim))
            return
        with self._mutex:
            ticket, held, schedule = claim.ticket, self.held, self._schedule
            key = ticket.name, claim.caller
            if key in held and held[key] is claim:
                del held[key]
            if ticket.id in schedule.new:
                del schedule.new[ticket.id]
            else:
                schedule.remove(claim)
            if self._slow.rows:
                self._slow.remove(claim)

    def warn_if_slow(self, claim: Claim, warn_after: float, stack: list[CallSite]) -> None:
        """Log where this lease was acquired if it is still held after so many seconds."""
        with self._mutex:
            if claim.reason is None:
                holder = SlowHolder(claim, self.io.now(), stack)
                self._keeper.wake(claim, self._slow.add(warn_after, holder))

    def bound(self, claim: BoundedClaim, *, renews: bool, max_hold: float | None) -> None:
        """From now on this lease has a fixed ttl, or a longest life."""
        with self._mutex:
            if claim.reason is None:
                now = self.io.now()
                claim.bound(now, renews=renews, max_hold=max_hold)
                self._keeper.wake(claim, self._schedule.settle(claim, now))

    def held_by(self, name: str, caller: object) -> Claim | None:
        """The claim by which this caller holds a name."""
        claim = self.held.get((name, caller))
        return claim if claim is not None and claim.is_good() else None

    def every(self) -> list[Claim]:
        """All claims that are renewed, at this moment."""
        with self._mutex:
            return self._schedule.every()

    def change_ttl(self, claim: Claim, ttl: float) -> None:
        """Ask for another ttl from now on."""
        with self._mutex:
            now = self.io.now()
            due = self._schedule.hasten(claim, ttl, now)
            claim.change_ttl(ttl, now)
            self._keeper.wake(claim, min(due, self._schedule.settle(claim, now)))

    # --- loss

    def on_loss(self, claim: Claim, callback: Callable[[], Any]) -> None:
        """Call this when the lease is lost: at once if it is lost already."""
        with self._mutex:
            if claim.reason is None:
                claim.call_when_lost(callback)
                return
        if claim.reason not in (RELEASED, DETACHED):
            _call(callback, claim)

    def lost_event(self, claim: Claim) -> Event:
        """The one event that is set when this lease is lost."""
        with self._mutex:
            return claim.lost_event or claim.signal_when_lost(self.io.event())

    def lose(self, claim: Claim, reason: str) -> None:
        """Mark a lease as lost, and tell its holder. Only the first reason counts."""
        if self.foreign:  # only this child learns it; the mutex may be locked for ever
            claim.ended(reason)
            return
        tell = partial(self._tell, claim)
        with self._mutex:
            if claim.reason is not None:
                return
            self._keeper.later(tell)  # should this thread be interrupted
            claim.ended(reason)
        try:
            tell()
        except BaseException:
            self._keeper.rouse()
            raise
        self._keeper.undo_later(tell)

    def _tell(self, claim: Claim) -> None:
        reason = claim.reason
        if reason is None:
            return
        self.forget(claim)
        # The holder is told before the next one can have the name.
        for callback in claim.callbacks():
            _call(callback, claim)
        # Also if the ticket is gone: a request may still be under way and reach the engine.
        self.sweeper.doom(claim, MARGIN if reason == OVERHELD else 0.0)
        _observe_end(claim)
        accident = not claim.internal and reason not in (CLOSED, PROGRAM_ENDED, RAN_OUT)
        level = logging.WARNING if accident else logging.DEBUG
        extra = _details(claim, reason)
        log.log(level, "lease on %r was lost: %s", claim.ticket.name, reason, extra=extra)

    async def notice_eviction(self, name: str) -> None:
        """The holders of a name were evicted. If one of them was ours, tell it now."""
        ours = [claim for claim in self.every() if claim.ticket.name == name and claim.was_held]
        if not ours:
            return
        if self.io.blocking:
            await self._look_again(ours)
        else:  # in a task of its own: the loss may cancel the caller's task
            await self.io.spawn(self._look_again(ours), "fencelock-loss").join()

    async def _look_again(self, claims: list[Claim]) -> None:
        sent, tickets = self.io.now(), [claim.ticket for claim in claims]
        try:
            standings = await self.engine.renew(tickets, timeout=REQUEST_TIMEOUT)
        except EngineError:
            return  # then the next renewal tells
        for claim, standing in zip(claims, standings, strict=True):
            reason = None if standing is None else claim.answered(standing, sent, self.io.now())
            if reason is not None:
                self.lose(claim, reason)

    # --- ending quietly: no event, no callback

    def give_up(self, claim: Claim, reason: str) -> None:
        """End a claim quietly. The sweeper takes its ticket out of the queue.

        For a caller that was interrupted before it had the lease, or while it released it. If the claim has
        ended already, nothing happens.
        """
        if self.foreign:
            return
        if claim.reason is not None and claim not in self._schedule and claim not in self.sweeper:
            _observe_end(claim)  # in case the release was interrupted just before that
            return
        # The sweeper comes first: should this be interrupted, it can be done again.
        self.sweeper.condemn(claim, claim.departure(claim.reason or reason), 0.0)
        with self._mutex:
            claim.ended(reason)
        self.forget(claim)
        self.sweeper.start()
        _observe_end(claim)

    def adopt(self, claim: Claim, now: float) -> bool:
        """The caller has a lease that was acquired elsewhere. False if this context has it already."""
        with self._mutex:
            if claim in self._schedule:
                return False
            self.hold(claim, now)
            return True

    def let_go(self, claim: Claim) -> None:
        """Renew a lease no more, and leave its ticket as it is: another process goes on with it."""
        # First, because the keeper takes out the tickets of claims that have ended halfway. Not if it was
        # never held: another claim of this context may have the same ticket.
        if claim.was_held:
            self.forget(claim)
        with self._mutex:
            claim.ended(DETACHED)
        _observe_end(claim)

    def soon(self, act: Callable[[], None]) -> None:
        """Do this soon, in the keeper's thread or task. For finalizers, which may run anywhere."""
        if not self.foreign:
            self._keeper.soon(act)

    def drop(self, claim: Claim, site: CallSite | None) -> None:
        """Renew a lease no more that nobody can release: its lease object is gone.

        Its ticket stays in the queue until its ttl has passed, because its work may still be going on. The
        next holder then finds the name abandoned.
        """
        with self._mutex:
            if not claim.ended(DROPPED):
                return
        self.forget(claim)
        if not self.engine.traits.leases_expire:  # then it would stay for as long as its connection
            self.sweeper.condemn(claim, Departure.LOST, claim.ticket.ttl)
            self.sweeper.start()
        # Python hides the warning that the lease gives, unless it is asked to show it.
        where = ":".join(map(str, place_of(site)))
        _observe_end(claim)
        extra = _details(claim, DROPPED)
        name = claim.ticket.name
        log.warning("lease on %r, acquired at %s, was never released", name, where, extra=extra)

    def abandon(self) -> None:
        """The event loop of this context has ended: nothing can be sent any more."""
        self.closing = True
        for claim in self.every():
            claim.ended(LOOP_ENDED)
            claim.callbacks()
            _observe_end(claim)
        self.engine.abandon()

    async def close(self, reason: str = CLOSED) -> None:
        """Stop renewing, and release what is held."""
        with self._mutex:
            self.closing = True
        # What is admitted from now on is refused by `hold`, and released before the engine is closed.
        until = self.io.now() + REQUEST_TIMEOUT
        while self.entering and self.io.now() < until:
            await self.io.event().wait(_CLOSING_PAUSE)
        self.sweeper.stop()  # `close` does its work: at the end of a program no thread can be started
        for claim in self.every():
            self.lose(claim, reason)
        await self._keeper.close()
        await self.sweeper.close()
        await self.engine.close()
        await self.io.close()


def _call(callback: Callable[[], Any], claim: Claim) -> None:
    try:
        callback()
    except (Exception, SystemExit):  # a callback must not end the keeper
        log.exception("the on_lost callback for %r failed", claim.ticket.name)


def _observe_end(claim: Claim) -> None:
    if claim.sighting is not None:
        claim.sighting.ended(claim)


def _details(claim: Claim, reason: str) -> dict[str, Any]:
    """The fields of a log record about a lease."""
    ticket = claim.ticket
    return {"lock": ticket.name, "fence": claim.fence, "owner": str(ticket.owner), "reason": reason}
