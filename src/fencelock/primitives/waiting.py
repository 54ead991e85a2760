"""The one waiting loop: from a name to a lease, whatever the engine and whatever goes wrong."""

from __future__ import annotations

import itertools
import math
import os
from collections.abc import Awaitable, Callable, Sequence

from fencelock.core.backoff import Backoff
from fencelock.core.errors import EngineError, UnsafeEngine, Unsupported
from fencelock.core.ticket import ADMITTED, REFUSED, Departure, Place, Standing
from fencelock.primitives.claim import GRANTED, QUEUED, WITHDRAWN, Claim
from fencelock.primitives.schedule import RENEW_AT
from fencelock.primitives.sweeper import REQUEST_TIMEOUT

MIN_TIMEOUT = 0.25
"""Minimum timeout of a request, in seconds. Even a caller with less time left gets a true answer."""


Attend = Callable[[Claim], Awaitable[float]]
"""Called with a waiting claim each time before it sleeps. Returns when to wake it at the latest, or raises:
then the claim is withdrawn."""


def new_id() -> str:
    """A ticket's secret: with it, the lock can be released."""
    # None are made in advance: a machine that is copied while it runs would use them twice.
    return os.urandom(16).hex()


async def obtain(claim: Claim, timeout: float, attend: Attend | None = None) -> bool:
    """Hold the lease within `timeout` seconds. If that fails, nothing stays behind."""
    context = claim.context
    now = context.io.now()
    limit = now + timeout
    id = claim.ticket.id
    try:
        context.entering[id] = claim
        if context.closing:  # `close` waits for the claims that it sees entering
            context.verify()
        if context.sighting is not None and not claim.internal:
            claim.sighting = context.sighting(claim, timeout, now)
        place = await _look(claim, now, limit, if_free=timeout == 0)
        if place is REFUSED:
            if claim.unanswered:  # an earlier request may still arrive and find the name free
                context.sweeper.doom(claim)
            claim.ended(WITHDRAWN)
            if claim.sighting is not None:
                claim.sighting.not_granted(claim, timeout)
            return False
        if place is not ADMITTED or (claim.answered_at >= claim.deadline and not claim.fleeting):
            if not await _wait(claim, limit, attend):
                await withdraw(claim, MIN_TIMEOUT)
                if claim.sighting is not None:
                    claim.sighting.not_granted(claim, timeout)
                return False
            context.verify()  # closed while we waited? or forked, in a signal handler?
            context.engine.unpark(claim.ticket)
            now = context.io.now()
        else:
            if claim.unanswered:
                context.engine.unpark(claim.ticket)
            now = claim.answered_at
        if claim.fleeting:
            context.pass_on(claim)
        else:
            context.hold(claim, now)
        if claim.sighting is not None:
            claim.sighting.granted(claim, now)
            if claim.fleeting:
                claim.sighting.ended(claim)
    except (
        BaseException
    ) as error:  # also a cancellation or an interruption: the ticket may have arrived
        # If the engine does not answer, the caller need not wait for that.
        patience = 0.0 if isinstance(error, EngineError) else REQUEST_TIMEOUT
        try:
            if isinstance(error, UnsafeEngine | Unsupported) and not claim.unanswered:
                claim.ended(WITHDRAWN)  # it did not join
            else:
                await withdraw(claim, patience)
        finally:
            if claim.sighting is not None:
                claim.sighting.cut_short(claim, error)
        raise
    finally:
        if id in context.entering:
            del context.entering[id]
    return True


async def obtain_free(claims: Sequence[Claim]) -> int:
    """Hold the leases that are free, up to the first that is not. Returns how many; gives up the others."""
    context = claims[0].context
    try:
        for claim in claims:
            context.entering[claim.ticket.id] = claim
        context.verify()
        return await _obtain_free(claims)
    except BaseException:
        if context.closing:  # soon nobody will be left to do it in the background
            for claim in claims:
                await withdraw(claim, MIN_TIMEOUT)
        raise
    finally:
        for claim in claims:
            context.entering.pop(claim.ticket.id, None)


async def _obtain_free(claims: Sequence[Claim]) -> int:
    context, io = claims[0].context, claims[0].context.io
    asked = io.now()
    until = asked + REQUEST_TIMEOUT
    try:
        sent, standings = await _enter_free(claims, REQUEST_TIMEOUT)
    except EngineError:  # once more, as in `_look`; some of them may have been applied
        left = until - io.now()
        if left <= 0:
            raise
        sent, standings = await _enter_free(claims, left)
    for claim, standing in zip(claims, standings, strict=True):
        claim.answered(standing, sent, io.now(), joining=True)
    now = io.now()
    free = list(
        itertools.takewhile(lambda claim: claim.state is GRANTED and now < claim.deadline, claims)
    )
    for claim in free:
        context.hold(claim, now)
        if context.sighting is not None:
            # Only now: the others ask again, each for itself.
            claim.sighting = context.sighting(claim, 0.0, asked)
            claim.sighting.granted(claim, now)
    for claim in claims[len(free) :]:
        if claim.unanswered or claim.state is GRANTED:
            await withdraw(claim, MIN_TIMEOUT)
        else:
            claim.ended(WITHDRAWN)
    return len(free)


async def stand(claim: Claim) -> None:
    """Join a queue and stay in it, admitted or not, until `withdraw`."""
    context = claim.context
    try:
        await _look(claim, context.io.now(), math.inf)
        context.engine.unpark(claim.ticket)
        context.keep(claim)
    except BaseException:
        await withdraw(claim, 0.0)
        raise


async def _enter_free(claims: Sequence[Claim], timeout: float) -> tuple[float, list[Standing]]:
    """When the request was sent, and the answers."""
    context = claims[0].context
    while True:
        for claim in claims:
            claim.asked()
        tickets = [claim.ticket for claim in claims]
        sent = context.io.now()
        try:
            return sent, await context.engine.enter_free(tickets, timeout=timeout)
        except Unsupported as error:
            if not _shortened(claims, error):
                raise
        except UnsafeEngine:
            for claim in claims:
                claim.not_applied()
                claim.ended(WITHDRAWN)
            raise


def _shortened(claims: Sequence[Claim], error: Unsupported) -> bool:
    """Use the longest ttl there is. False if the caller asked for another one, or the error is about
    something else."""
    longest = error.longest_ttl
    if longest is None:
        return False
    # The request for this claim was not applied, and those behind it were not sent. Those before it may have
    # been.
    for claim in itertools.dropwhile(lambda claim: claim.ticket.name != error.name, claims):
        claim.not_applied()
    return sum(claim.shorten(longest) for claim in claims) > 0


async def _wait(claim: Claim, limit: float, attend: Attend | None) -> bool:
    """Sleep in the queue until the ticket is admitted (True) or `limit` has come (False)."""
    context = claim.context
    io, engine, ticket = context.io, context.engine, claim.ticket
    backoff: Backoff | None = None
    failing_since = math.inf
    context.keep(claim)  # waiting tickets are renewed too, or the queue would forget them
    context.entering.pop(ticket.id, None)
    if claim.sighting is not None and claim.state is QUEUED:
        claim.sighting.queued()
    while (now := io.now()) < limit:
        if context.closing or context.foreign:  # while we slept
            context.verify()
        # Normally a push ends the sleep. If it is lost, the keeper's renewals still bring news, and it is
        # worth asking when the ticket ahead should have expired.
        until = min(limit, claim.recheck_at, now + ticket.ttl * RENEW_AT)
        try:
            if claim.state is not QUEUED:
                # Not in the queue any more, or admitted so long ago that it may be over already.
                await _look(claim, now, limit)
            else:
                if attend is not None:
                    until = min(until, await attend(claim))
                standing = await engine.park(ticket, until)
                now = io.now()
                if not claim.woken(standing, now) and not until <= now < claim.recheck_at:
                    claim.doubted()
            backoff, failing_since = None, math.inf
        except EngineError:
            # The queue survives a short absence of the engine, but no ticket outlives its ttl. That counts
            # from the first failure, not from the last answer: perhaps this process was stopped for long.
            failing_since = min(failing_since, io.now())
            if io.now() - failing_since >= ticket.ttl:
                raise
            backoff = backoff or Backoff(0.01, 0.25, io.random)
            await io.event().wait(min(backoff.next(), max(0.0, limit - io.now())))
            claim.doubted()
        if claim.state is GRANTED and (claim.fleeting or io.now() < claim.deadline):
            return True
    return False


async def _look(claim: Claim, sent: float, limit: float, *, if_free: bool = False) -> Place:
    """Ask where the ticket stands. It joins the queue if it is not in it (any more)."""
    context, ticket = claim.context, claim.ticket
    timeout = REQUEST_TIMEOUT
    if not if_free and limit - sent < timeout:
        timeout = max(limit - sent, MIN_TIMEOUT)
    until, again = sent + timeout, False
    while True:
        claim.asked()
        try:
            standing = await context.engine.enter(ticket, if_free=if_free, timeout=timeout)
        except EngineError as error:
            if error.outcome == "not applied":
                claim.not_applied()
            if claim.unanswered:  # this request was not applied, but an earlier one may have been
                error.outcome = "unknown"
            # Once more with the same id: perhaps the connection was cut while it was idle. If the first
            # request did arrive, this one gets its answer. But not if the first one hung.
            sent = context.io.now()
            if again or sent >= until:
                raise
            timeout, again = until - sent, True
        except Unsupported as error:
            if not _shortened([claim], error):
                claim.not_applied()
                raise
            ticket, sent = claim.ticket, context.io.now()
        except UnsafeEngine:
            claim.not_applied()
            raise
        else:
            claim.answered(standing, sent, context.io.now(), True)
            return standing.place


async def withdraw(claim: Claim, patience: float) -> None:
    """Give up a ticket under which nobody has worked. Waits `patience` seconds for the engine to confirm
    it."""
    context = claim.context
    if context.foreign:  # a forked child: the ticket is the parent's
        claim.ended(WITHDRAWN)
        return
    # The sweeper comes first, so that neither a second cancellation nor an interruption can lose the ticket.
    context.sweeper.condemn(claim, Departure.WITHDRAWN, patience)
    claim.ended(WITHDRAWN)
    context.forget(claim)
    context.engine.unpark(claim.ticket)
    if claim.sighting is not None:
        claim.sighting.ended(claim)
    await context.sweeper.discard(claim, patience)
