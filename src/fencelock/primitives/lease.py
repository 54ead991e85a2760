"""A lease: proof of holding a lock until a deadline."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from fencelock.core.durations import Duration, check_positive, deadline
from fencelock.core.errors import EngineError, FencelockError, LeaseLost, Unsupported
from fencelock.core.lease import LeaseState
from fencelock.core.ticket import READING, Owner, Ticket
from fencelock.engines.contract import NO_SHARING, NOT_PORTABLE
from fencelock.io.blocking import blocking, run
from fencelock.primitives.call_site import CallSite, place_of
from fencelock.primitives.claim import DETACHED, EVICTED, RELEASED, Claim
from fencelock.primitives.context import Context
from fencelock.primitives.holding import AsyncHolding, BlockingHolding, Holding
from fencelock.primitives.leaving import leave_again
from fencelock.primitives.lost import AsyncLost, Lost
from fencelock.primitives.sweeper import REQUEST_TIMEOUT

TOO_SHORT = "too little time is left of it"

_LEAVING, _LEFT = 1, 2
"""A release has begun; or nothing is left to release, because the lock was entered again or handed over."""


class BaseLease(Holding):
    """What a lease is, blocking or not. All state is here, none in the lock it came from."""

    __slots__ = ("__weakref__", "_claim", "_left", "_site")

    def __init__(self, claim: Claim) -> None:
        self._claim = claim
        self._left = 0
        self._site: CallSite | None = None
        """Where it was acquired. A `with` block does not need it: it releases its lease itself."""

    @property
    def _context(self) -> Context:
        return self._claim.context

    @property
    def _caller(self) -> object:
        return self._claim.caller

    @property
    def name(self) -> str:
        """What is protected."""
        return self._claim.ticket.name

    @property
    def fence(self) -> int:
        """The fencing token: higher than that of every earlier lease on this name. Hand it to storage."""
        return self._claim.fence

    @property
    def id(self) -> str:
        """This lease's secret. It tells two holders apart should a fence ever be handed out twice."""
        return self._claim.ticket.id

    @property
    def owner(self) -> Owner:
        """The program that holds it, for people."""
        return self._claim.ticket.owner

    @property
    def ttl(self) -> float:
        """How long the lease lives unless renewed, in seconds. On an engine without expiry: how long it is
        trusted while no heartbeat is answered."""
        return self._claim.ticket.ttl

    @property
    def abandoned(self) -> bool:
        """The previous holder did not release: its work may be half done."""
        return self._claim.abandoned

    @property
    def state(self) -> LeaseState:
        """Held, suspended, lost or released, by this moment's clock."""
        return self._claim.lease_state()

    def __bool__(self) -> bool:
        """Whether it is held now, by this moment's clock: false when it is lost or released."""
        return not self._left and self._claim.is_good()

    def remaining(self) -> float:
        """Seconds until this lease ends unless it is renewed; 0 when it is lost."""
        claim = self._claim
        return 0.0 if claim.reason else max(0.0, claim.deadline - claim.context.io.now())

    def check(self, at_least: Duration = 0) -> None:
        """Raise `LeaseLost` unless the lease is still good. No network: the clock decides.

        With `at_least` also if fewer seconds are left: too few for the next step of the work."""
        self._context.io.verify()
        self._notice()
        if self._claim.reason is not None:
            raise self._lost(self._claim.reason)
        if at_least:
            self._check_time(check_positive("at_least", at_least))

    def _check_time(self, needed: float) -> None:
        claim = self._claim
        longest, left = deadline(0.0, claim.ticket.ttl), self.remaining()
        if needed > longest:
            raise ValueError(
                f"at_least is {needed:g} s, and a lease with a ttl of {self.ttl:g} s never has more than "
                f"{longest:.3g} s left: use a longer ttl"
            )
        if left < needed:
            raise LeaseLost(
                f"the lease on {self.name!r} (fence {self.fence}) is held for another {left:.3g} s, and the "
                f"next step needs {needed:g} s: renew() it first, or stop here",
                name=self.name,
                reason=TOO_SHORT,
            )

    if not TYPE_CHECKING:

        def __getattr__(self, name):
            from fencelock.primitives.habits import OF_LEASES, unknown  # only mistakes need it

            raise unknown(self, name, OF_LEASES)

    def detach(self) -> str:
        """Let go of the lease without releasing it, and return its id. Another process goes on with it, by
        `client.attach(name, id)`; it has `remaining()` seconds for that. Nothing is sent."""
        self.check()
        claim = self._claim
        if not self._context.engine.traits.portable:
            raise Unsupported(NOT_PORTABLE, name=self.name)
        if claim.depth > 1:
            raise FencelockError(
                f"{self.name!r} was entered again: only its outermost lease can be detached, when the others "
                "are released",
                name=self.name,
            )
        self._context.let_go(claim)
        self._left = _LEFT
        return claim.ticket.id

    def __repr__(self) -> str:
        return f"<{type(self).__name__} on {self.name!r}: {self.state.value}, fence {self.fence}>"

    def __del__(self) -> None:
        try:
            if not self._left and self._claim.reason is None:
                self._drop()
        except AttributeError:  # an interruption ended `__init__` halfway
            return

    def _drop(self) -> None:
        """Nobody can release this lease any more. May run anywhere, so it takes no mutex."""
        claim, context = self._claim, self._context
        if context.foreign or context.closing:
            return
        self._left = _LEFT
        if claim.depth > 1:  # an inner lease of a lock that was entered again
            claim.depth -= 1
        else:
            context.soon(partial(context.drop, claim, self._site))
        file, line = place_of(self._site)
        message = (
            f"the lease on {self.name!r} was never released; it was acquired at {file}:{line}. It is not "
            f"renewed any more, so the lock becomes free when its ttl of {self.ttl:g} s has passed. Use "
            "`with`, or keep the lease and release it"
        )
        warnings.warn_explicit(message, ResourceWarning, file, line)

    def _hand_over(self) -> Claim:
        """Another object is responsible for the claim from now on."""
        self._left = _LEFT
        return self._claim

    def _notice(self) -> None:
        claim = self._claim
        if claim.reason is None and claim.context.io.now() >= claim.deadline:
            claim.context.lose(claim, claim.overdue)

    def _lost(self, reason: str) -> LeaseLost:
        message = (
            f"{self.name!r} was already {reason}"
            if reason in (RELEASED, DETACHED)
            else f"the lease on {self.name!r} (fence {self.fence}) is lost: {reason}. "
            "Someone else may hold it now: stop, and don't write"
        )
        return LeaseLost(message, name=self.name, reason=reason)

    def _learned(self, reason: str | None) -> None:
        """The engine has answered; with a reason, the lease is lost."""
        if reason is not None:
            self._context.lose(self._claim, reason)
        self.check()

    async def _enter_again(self, ticket: Ticket) -> None:
        """Change what the engine knows of this ticket: to enter again is how that is done."""
        self.check()
        claim, context = self._claim, self._context
        sent = context.io.now()
        claim.asked()  # if the ticket is gone, it joins anew
        try:
            standing = await context.engine.enter(ticket, if_free=False, timeout=REQUEST_TIMEOUT)
        except EngineError as error:
            if error.outcome == "not applied":
                claim.not_applied()
            raise
        context.engine.unpark(ticket)
        reason = claim.answered(standing, sent, context.io.now(), joining=True)
        if reason is None:
            claim.became(ticket)
        self._learned(reason)

    async def _ask(self) -> None:
        """Ask the engine whether it is held, which renews it."""
        claim, context = self._claim, self._context
        sent = context.io.now()
        (standing,) = await context.engine.renew([claim.ticket], timeout=REQUEST_TIMEOUT)
        if standing is None:
            raise EngineError(
                f"could not renew {self.name!r}: its part of the engine did not answer",
                outcome="unknown",
                name=self.name,
            )
        now = context.io.now()
        margin, suspended = claim.deadline - now, claim.suspended
        reason = claim.answered(standing, sent, now)
        if claim.sighting is not None and reason is None:
            claim.sighting.renewed(claim, margin, suspended)
        self._learned(reason)

    def _can_leave(self) -> bool:
        """Whether it can be released together with others."""
        claim = self._claim
        return not self._left and claim.depth == 1 and claim.is_good()

    def _start_leaving(self) -> None:
        """The engine is about to be asked to release it, together with others."""
        self._left = _LEAVING
        self._context.forget(self._claim)

    async def _release(self, there: bool | None = None) -> None:
        """Release it. `there`: what the engine has answered, if it was asked together with others."""
        claim = self._claim
        context = claim.context
        if context.foreign or not context.io.blocking:  # else there is nothing to verify
            context.io.verify()
        if self._left and there is None:
            return
        try:
            self._left = _LEAVING
            if (
                claim.depth > 1
            ):  # a lock that was entered again is released with its outermost lease
                # No call stands between these two steps, so no signal can come between them.
                claim.depth -= 1
                self._left = _LEFT
                return
            now = context.io.now()
            if there is None and now >= claim.deadline and claim.reason is None:
                context.lose(claim, claim.overdue)
            if claim.reason is not None:
                raise self._lost(claim.reason)
            if there is None:
                context.forget(claim)  # first: a renewal after the release would be a lie
                try:
                    there = await context.engine.leave(claim.ticket, timeout=REQUEST_TIMEOUT)
                except EngineError as error:
                    until = now + REQUEST_TIMEOUT
                    (there,) = await leave_again(context, [claim.ticket], error, until)
            if not there:
                context.lose(claim, EVICTED)
                raise self._lost(EVICTED)
            claim.ended(RELEASED)  # unless another thread has noticed just now that it is late
            if claim.unanswered:
                context.sweeper.doom(claim)  # a request to join may still arrive, after this
            if claim.sighting is not None:
                claim.sighting.ended(claim)
        except LeaseLost:
            raise
        except BaseException:  # the engine failed, or we were cancelled or interrupted
            self._give_up()
            raise

    def _give_up(self) -> None:
        if self._left == _LEFT:
            return
        if self._claim.depth == 1:
            self._context.give_up(self._claim, RELEASED)
        else:
            self._claim.depth -= 1
            self._left = _LEFT

    def _is_lost(self) -> bool:
        """Whether the lease is lost, by this moment's clock."""
        self._notice()
        return self._claim.reason not in (None, RELEASED, DETACHED)

    def _loss(self) -> LeaseLost | None:
        claim = self._claim
        return self._lost(claim.reason or claim.overdue) if self._is_lost() else None

    def _on_loss(self, callback: Callable[[], Any]) -> None:
        self._context.on_loss(self._claim, callback)


class AsyncLease(BaseLease, AsyncHolding):
    """Proof of holding a lock until a deadline, renewed in the background until released."""

    __slots__ = ("_canceller", "_cancels")

    def __init__(self, claim: Claim) -> None:
        self._claim = claim
        self._left = 0
        self._site = None
        self._cancels = False
        self._canceller = None

    @property
    def lost(self) -> AsyncLost:
        """An event that is set when the lease is lost."""
        return AsyncLost(self)

    async def confirm(self: BaseLease) -> None:
        """Ask the engine now whether the lease is held: before a step that can't be undone.

        Raises `LeaseLost` if it is not, and `EngineError` if the engine does not answer. It renews the lease,
        too."""
        self.check()
        await self._ask()

    async def renew(self: BaseLease, ttl: Duration | None = None) -> None:
        """Renew now. With `ttl`, later renewals use it too. Raises `LeaseLost` if it is too late."""
        self.check()
        claim, context = self._claim, self._context
        before = claim.ticket.ttl
        if ttl is not None:
            context.change_ttl(claim, context.engine.traits.check_ttl(ttl))
        try:
            await self._ask()
        except EngineError as error:
            if error.outcome == "not applied" and ttl is not None:
                context.change_ttl(claim, before)  # the engine may never accept the other one
            raise

    async def downgrade(self: BaseLease) -> None:
        """Turn a write lease into a read lease: other readers come in, and no writer in between."""
        ticket = self._claim.ticket
        if not self._context.engine.traits.supports_sharing:
            raise Unsupported(NO_SHARING, name=self.name)
        if ticket.share.group:
            raise ValueError(
                f"the lease on {self.name!r} shares it already: only a writer can become a reader"
            )
        await self._enter_again(ticket._replace(share=READING))

    async def release(self) -> None:
        """Release the lock. `LeaseLost` if it was lost before; a second release does nothing."""
        await self._release()


class Lease(BaseLease, BlockingHolding):
    """Proof of holding a lock until a deadline, renewed in the background until released."""

    __slots__ = ()

    @property
    def lost(self) -> Lost:
        """An event that is set when the lease is lost."""
        return Lost(self)

    confirm = blocking(AsyncLease.confirm)
    renew = blocking(AsyncLease.renew)
    downgrade = blocking(AsyncLease.downgrade)

    def release(self) -> None:
        """Release the lock. `LeaseLost` if it was lost before; a second release does nothing."""
        try:
            run(self._release())
        except BaseException:
            self._give_up()
            raise
