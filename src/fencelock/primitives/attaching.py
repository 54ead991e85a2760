"""To go on with a lease that another process has acquired: `client.attach(name, id)`."""

from __future__ import annotations

from typing import TypeVar

from fencelock.core.errors import EngineError, FencelockError, LeaseLost, Unsupported
from fencelock.core.ticket import ADMITTED, WAITING, Standing, Ticket
from fencelock.engines.contract import NOT_PORTABLE
from fencelock.io.blocking import run
from fencelock.primitives.call_site import call_site
from fencelock.primitives.claim import Claim
from fencelock.primitives.lease import AsyncLease, BaseLease, Lease
from fencelock.primitives.lock import AsyncLock, BaseLock, Lock
from fencelock.primitives.sweeper import REQUEST_TIMEOUT

L = TypeVar("L", bound=BaseLease)

NOT_HELD = (
    "the engine does not know it: it was released, has expired or was broken, or the id is wrong"
)
STILL_WAITS = "its ticket waits, and is not admitted yet"


def attach(lock: Lock, id: str) -> Lease:
    """Go on with the lease that has this id. It is renewed here from now on."""
    claim = _claim(lock, id)
    try:
        run(_adopt(claim))
        return _known(lock._watched(Lease(claim)))
    except BaseException:
        claim.context.let_go(claim)
        raise


async def async_attach(lock: AsyncLock, id: str) -> AsyncLease:
    """Go on with the lease that has this id. It is renewed here from now on."""
    claim = _claim(lock, id)
    try:
        await _adopt(claim)
        return _known(lock._lease(claim))
    except BaseException:
        claim.context.let_go(claim)
        raise


def _known(lease: L) -> L:
    lease._site = call_site()
    return lease


def _claim(lock: BaseLock[L], id: str) -> Claim:
    if not isinstance(id, str):
        raise TypeError(f"an id must be a str, as lease.id is, not {type(id).__name__}")
    if len(id) != 32 or id.strip("0123456789abcdef"):
        raise ValueError("an id has 32 digits from 0 to f, as lease.id has them: this is none")
    context = lock._contexts.here()
    context.verify()
    ticket = Ticket(lock.name, id, lock._ttl, context.owned(lock._owner))
    return lock._kind(context, ticket, context.io.caller(), lock._flexible)


async def _adopt(claim: Claim) -> None:
    """Renew it, once and from then on. Nothing but a renewal is sent: that can't join the queue."""
    context, name = claim.context, claim.ticket.name
    if not context.engine.traits.portable:
        raise Unsupported(NOT_PORTABLE, name=name)
    claim.asked()
    sent, standing = await _renewed(claim)
    now = context.io.now()
    claim.answered(standing, sent, now, joining=True)
    if standing.place is not ADMITTED or now >= claim.deadline:
        reason = STILL_WAITS if standing.place is WAITING else NOT_HELD
        raise LeaseLost(
            f"there is no lease on {name!r} to attach: {reason}", name=name, reason=reason
        )
    if not context.adopt(claim, now):
        raise FencelockError(
            f"this client renews that lease on {name!r} already: use the lease object that it has, or "
            "detach() that first",
            name=name,
        )
    if context.sighting is not None:
        claim.sighting = context.sighting(claim, 0.0, sent)
        claim.sighting.attached(claim, now)


async def _renewed(claim: Claim) -> tuple[float, Standing]:
    """When the renewal was sent, and its answer. Tries twice, because a connection may have been cut while it
    was idle."""
    context, name = claim.context, claim.ticket.name
    until = context.io.now() + REQUEST_TIMEOUT
    failure: EngineError | None = None
    while (left := until - (sent := context.io.now())) > 0:
        try:
            (standing,) = await context.engine.renew([claim.ticket], timeout=left)
        except EngineError as error:
            if failure is not None:
                raise
            failure = error
        else:
            if standing is not None:
                if not context.engine.traits.portable:  # it is known now
                    raise Unsupported(NOT_PORTABLE, name=name)
                return sent, standing
            break
    raise failure or EngineError(
        f"could not attach the lease on {name!r}: its part of the engine did not answer",
        outcome="unknown",
        name=name,
    )
