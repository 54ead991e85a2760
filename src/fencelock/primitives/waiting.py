"""The one waiting loop: from a name to a lease, whatever the engine and whatever goes wrong."""

from __future__ import annotations

import itertools
import math
import os
from collections.abc import Awaitable, Callable, Sequence

from fencelock.core.backoff import Backoff
from fencelock.core.errors import EngineError, Unsupported
from fencelock.core.ticket import ADMITTED, GONE, REFUSED, WAITING, Departure, Place, Standing
from fencelock.primitives.keeper import RENEW_AT, Keeper
from fencelock.primitives.kept import WITHDRAWN, Kept
from fencelock.primitives.sweeper import REQUEST_TIMEOUT

LEAST_TIMEOUT = 0.25
"""Seconds that a request gets at the least: a caller in a hurry still wants a true answer."""


Attend = Callable[[Kept], Awaitable[float]]
"""Called with a ticket that waits, each time before it sleeps: says when to wake it at the latest, or
raises, and then it is withdrawn."""


def new_id() -> str:
    """A ticket's secret: whoever knows it can release the lock."""
    # None are made in advance: a machine that is copied while it runs would use them twice.
    return os.urandom(16).hex()


async def obtain(
    keeper: Keeper,
    kept: Kept,
    timeout: float,
    attend: Attend | None = None,
) -> bool:
    """Hold a lease within `timeout` seconds; if not, and on any error, nothing stays behind."""
    now = keeper.io.now()
    limit = now + timeout
    try:
        keeper.entering[kept.ticket.id] = kept
        if keeper.closing:  # it waits for those that it has seen entering
            keeper.verify()
        place = await _look(keeper, kept, now, limit, if_free=timeout == 0)
        if place is REFUSED:
            if kept.unanswered:  # an earlier request may still come and find it free
                keeper.sweeper.doom(kept)
            kept.reason = WITHDRAWN
            return False
        if place is not ADMITTED or kept.answered >= kept.deadline:
            if not await _wait(keeper, kept, place, limit, attend):
                await withdraw(keeper, kept, LEAST_TIMEOUT)
                return False
            keeper.verify()  # closed while we waited? or forked, in a signal handler?
            kept.answered = keeper.io.now()  # what was asked before may still be answered "waiting"
            keeper.engine.unpark(kept.ticket)
        elif kept.unanswered:
            keeper.engine.unpark(kept.ticket)
        kept.admitted = True
        keeper.keep(kept)
    except EngineError:
        await withdraw(keeper, kept, 0.0)  # it does not answer: don't let the caller wait for that
        raise
    except BaseException:  # also a cancellation or a KeyboardInterrupt: the ticket may have arrived
        await withdraw(keeper, kept, REQUEST_TIMEOUT)
        raise
    finally:
        if kept.ticket.id in keeper.entering:
            del keeper.entering[kept.ticket.id]
    return True


async def obtain_free(keeper: Keeper, wanted: Sequence[Kept]) -> int:
    """Hold those that are free, up to the first that is not, and say how many. It gives up the others."""
    try:
        for kept in wanted:
            keeper.entering[kept.ticket.id] = kept
        keeper.verify()
        return await _obtain_free(keeper, wanted)
    except BaseException:
        if keeper.closing:  # soon there will be nobody left to do it in the background
            for kept in wanted:
                await withdraw(keeper, kept, LEAST_TIMEOUT)
        raise
    finally:
        for kept in wanted:
            keeper.entering.pop(kept.ticket.id, None)


async def _obtain_free(keeper: Keeper, wanted: Sequence[Kept]) -> int:
    io = keeper.io
    until = io.now() + REQUEST_TIMEOUT
    try:
        sent, standings = await _enter_free(keeper, wanted, REQUEST_TIMEOUT)
    except EngineError:  # once more, as in `_look`; which of them were applied is not known
        left = until - io.now()
        if left <= 0:
            raise
        sent, standings = await _enter_free(keeper, wanted, left)
    for kept, standing in zip(wanted, standings, strict=True):
        kept.unanswered -= 1
        kept.learn(standing, sent, io.now())
    now = io.now()
    free = list(
        itertools.takewhile(lambda kept: kept.place is ADMITTED and now < kept.deadline, wanted)
    )
    for kept in free:
        kept.admitted, kept.answered = True, now
        keeper.keep(kept)
    for kept in wanted[len(free) :]:
        if kept.unanswered or kept.place is ADMITTED:
            await withdraw(keeper, kept, LEAST_TIMEOUT)
        else:
            kept.reason = WITHDRAWN
    return len(free)


async def stand(keeper: Keeper, kept: Kept) -> None:
    """Join a queue and stay in it, whatever comes of it, until `withdraw`."""
    try:
        await _look(keeper, kept, keeper.io.now(), math.inf)
        keeper.engine.unpark(kept.ticket)
        keeper.keep(kept)
    except BaseException:
        await withdraw(keeper, kept, 0.0)
        raise


async def _enter_free(
    keeper: Keeper, wanted: Sequence[Kept], timeout: float
) -> tuple[float, list[Standing]]:
    """When they were asked for, and the answers."""
    while True:
        for kept in wanted:
            kept.unanswered += 1
        tickets = [kept.ticket for kept in wanted]
        sent = keeper.io.now()
        try:
            return sent, await keeper.engine.enter_free(tickets, timeout=timeout)
        except Unsupported as error:
            if not _shortened(wanted, error):
                raise


def _shortened(wanted: Sequence[Kept], error: Unsupported) -> bool:
    """Make do with the longest ttl there is; False if another one was asked for, or it is not about that."""
    longest = error.longest_ttl
    if longest is None:
        return False
    # This one was not applied, and those behind it were not asked for; those before it were, perhaps.
    for kept in itertools.dropwhile(lambda kept: kept.ticket.name != error.name, wanted):
        kept.unanswered -= 1
    return sum(kept.shorten(longest) for kept in wanted) > 0


async def _wait(
    keeper: Keeper, kept: Kept, place: Place, limit: float, attend: Attend | None
) -> bool:
    """Sleep in the queue until the ticket is admitted (True) or `limit` has come (False)."""
    io, engine, ticket = keeper.io, keeper.engine, kept.ticket
    backoff: Backoff | None = None
    failing_since = math.inf
    keeper.keep(kept)  # waiting tickets are renewed too, or the queue would forget them
    keeper.entering.pop(ticket.id, None)
    while (now := io.now()) < limit:
        if keeper.closing or not keeper.here:  # while we slept
            keeper.verify()
        # A push normally ends the sleep. If it is lost, the keeper's renewals still bring news,
        # and when the one ahead should have expired it is worth asking.
        until = min(limit, kept.recheck_at, now + ticket.ttl * RENEW_AT)
        try:
            if place is not WAITING or kept.place is not WAITING:
                # Not in the queue any more, or admitted so long ago that it may be over already.
                place = await _look(keeper, kept, now, limit)
            else:
                if attend is not None:
                    until = min(until, await attend(kept))
                standing = await engine.park(ticket, until)
                if standing is not None and standing.fence == kept.fence:
                    kept.place, kept.abandoned = standing.place, standing.abandoned
                    kept.recheck_at = io.now() + standing.recheck
                elif not until <= io.now() < kept.recheck_at:
                    place = GONE  # not known any more
            backoff, failing_since = None, math.inf
        except EngineError:
            # The queue survives a short absence of the engine, but no ticket outlives its ttl. It counts
            # from the first failure, not from the last answer: it may be us who was away, for long.
            failing_since = min(failing_since, io.now())
            if io.now() - failing_since >= ticket.ttl:
                raise
            backoff = backoff or Backoff(0.01, 0.25, io.random)
            await io.event().wait(min(backoff.next(), max(0.0, limit - io.now())))
            place = GONE
        if kept.place is ADMITTED and io.now() < kept.deadline:
            return True
    return False


async def _look(
    keeper: Keeper, kept: Kept, sent: float, limit: float, *, if_free: bool = False
) -> Place:
    """Ask now where the ticket stands; joins the queue if it is not in it (any more)."""
    io, engine, ticket = keeper.io, keeper.engine, kept.ticket
    timeout = REQUEST_TIMEOUT
    if not if_free and limit - sent < timeout:
        timeout = max(limit - sent, LEAST_TIMEOUT)
    until, again = sent + timeout, False
    while True:
        kept.unanswered += 1
        try:
            standing = await engine.enter(ticket, if_free=if_free, timeout=timeout)
        except EngineError as error:
            kept.unanswered -= error.outcome == "not applied"
            if kept.unanswered:  # this one was not, but an earlier one may have been
                error.outcome = "unknown"
            # Once more with the same id: it may be a connection that was cut while it lay idle, and
            # if the first request did arrive, this one gets its answer. But not if that one hung.
            sent = io.now()
            if again or sent >= until:
                raise
            timeout, again = until - sent, True
        except Unsupported as error:
            if not _shortened([kept], error):
                raise
            ticket, sent = kept.ticket, io.now()
        else:
            kept.unanswered -= 1
            kept.learn(standing, sent, io.now())
            return standing.place


async def withdraw(keeper: Keeper, kept: Kept, patience: float) -> None:
    """Give up a ticket under which nobody has worked; waits so long for the engine to confirm it."""
    if not keeper.here:  # a forked child: it is its parent's
        kept.reason = WITHDRAWN
        return
    # First of all, so that neither a second cancellation nor an interruption can lose it.
    keeper.sweeper.condemn(kept, Departure.WITHDRAWN, patience)
    kept.reason = WITHDRAWN
    keeper.forget(kept)
    keeper.engine.unpark(kept.ticket)
    await keeper.sweeper.discard(kept, patience)
