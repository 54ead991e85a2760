"""Rates: at most so many per time. A permit is a ticket that nobody releases: it expires."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

from fencelock.core.durations import Duration, check_timeout
from fencelock.core.errors import LockTimeout
from fencelock.core.ticket import Share, Ticket
from fencelock.io.blocking import blocking
from fencelock.primitives.blocks import DEFAULT, _Default
from fencelock.primitives.claim import Claim
from fencelock.primitives.contexts import Contexts
from fencelock.primitives.options import LockOptions
from fencelock.primitives.waiting import new_id, obtain


class Turn(NamedTuple):
    """The answer of `try_acquire`. It is true if the caller may go ahead."""

    allowed: bool
    wait: float = 0.0
    """If not allowed: seconds after which it is worth asking again. By then enough permits have expired,
    but callers that wait in `acquire` come first."""

    def __bool__(self) -> bool:
        return self.allowed


class BaseRate:
    """What a rate is, blocking or not. It holds nothing: all permits are at the engine."""

    def __init__(self, contexts: Contexts, name: str, share: Share, options: LockOptions) -> None:
        self.name = name
        self._contexts = contexts
        self._share = share
        self._owner, self._ttl, timeout, *_ = options
        self._timeout = math.inf if timeout is None else check_timeout(timeout)

    def __repr__(self) -> str:
        share = self._share
        return f"<{type(self).__name__} {self.name!r}: {share.permits} per {share.lasts:g} s>"

    if not TYPE_CHECKING:

        def __getattr__(self, name):
            from fencelock.primitives.habits import OF_RATES, unknown  # only mistakes need it

            raise unknown(self, name, OF_RATES)

    def _claim(self) -> Claim:
        context = self._contexts.here()
        context.verify()
        ttl = self._contexts.default_ttl if self._ttl is None else self._ttl
        ticket = Ticket(self.name, new_id(), ttl, context.owned(self._owner), self._share)
        claim = Claim(context, ticket, object(), flexible=self._ttl is None)
        claim.fleeting = True
        return claim

    async def _try(self) -> Turn:
        claim = self._claim()
        if await obtain(claim, 0.0):
            return Turn(True)
        return Turn(False, max(0.0, claim.recheck_at - claim.context.io.now()))

    def _timed_out(self, timeout: float, turn: Turn) -> LockTimeout:
        share = self._share
        wanted = "a permit" if share.weight == 1 else f"{share.weight} permits"
        waited = f" within {timeout:g} s" if timeout else ""
        return LockTimeout(
            f"could not get {wanted} of {self.name!r}{waited}: its {share.permits} permits per "
            f"{share.lasts:g} s are taken; ask again in {turn.wait:.3g} s, or allow a longer timeout",
            name=self.name,
        )


class AsyncRate(BaseRate):
    """At most so many permits in any span of time, in order of arrival. Safe to share between tasks."""

    async def acquire(self: BaseRate, timeout: Duration | _Default | None = DEFAULT) -> None:
        """Wait for a permit; `LockTimeout` after `timeout` seconds, None waits for ever.

        Nothing has to be released. If the wait is cancelled, the place in the queue is given up.
        """
        limit = self._timeout if isinstance(timeout, _Default) else check_timeout(timeout)
        if limit and await obtain(self._claim(), limit):
            return
        # The last try: either a permit is free now, or the answer says when one will be.
        if not (turn := await self._try()):
            raise self._timed_out(limit, turn)

    async def try_acquire(self: BaseRate) -> Turn:
        """Take a permit if one is free at this moment. Never waits: `turn.wait` says how long to wait."""
        return await self._try()


class Rate(BaseRate):
    """At most so many permits in any span of time, in order of arrival. Safe to share between threads."""

    acquire = blocking(AsyncRate.acquire)
    try_acquire = blocking(AsyncRate.try_acquire)
