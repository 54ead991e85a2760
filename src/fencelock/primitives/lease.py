"""A lease: proof of holding a lock until a deadline."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fencelock.core.errors import EngineError, LeaseLost, Unsupported
from fencelock.core.lease import LeaseState
from fencelock.core.ticket import READING, Owner, Ticket
from fencelock.engines.contract import NO_SHARING
from fencelock.io.blocking import run
from fencelock.primitives.holding import AsyncHolding, BlockingHolding, Holding
from fencelock.primitives.keeper import Keeper
from fencelock.primitives.kept import EVICTED, EXPIRED, RELEASED, Kept
from fencelock.primitives.sweeper import REQUEST_TIMEOUT

_LEAVING, _LEFT = 1, 2
"""A release is under way, or was; the lease of a re-entered lock has nothing more to give back."""


class BaseLease(Holding):
    """What a lease is, in both worlds. All state is here, none in the lock it came from."""

    __slots__ = ("_keeper", "_kept", "_left")

    def __init__(self, keeper: Keeper, kept: Kept) -> None:
        self._keeper = keeper
        self._kept = kept
        self._left = 0

    @property
    def _caller(self) -> object:
        return self._kept.caller

    @property
    def name(self) -> str:
        """What is protected."""
        return self._kept.ticket.name

    @property
    def fence(self) -> int:
        """The fencing token: higher than that of every earlier lease on this name. Hand it to storage."""
        return self._kept.fence

    @property
    def id(self) -> str:
        """This lease's secret: it tells two holders apart should a fence ever be handed out twice."""
        return self._kept.ticket.id

    @property
    def owner(self) -> Owner:
        """Who holds it, for people."""
        return self._kept.ticket.owner

    @property
    def ttl(self) -> float:
        """How long the lease lives unless renewed, in seconds; without expiry at the engine: how long
        it is trusted while no heartbeat is answered."""
        return self._kept.ticket.ttl

    @property
    def abandoned(self) -> bool:
        """The previous holder did not release: its work may be half done."""
        return self._kept.abandoned

    @property
    def state(self) -> LeaseState:
        """Held, suspended, lost or released, by this very moment's clock."""
        return self._kept.state(self._keeper.io.now())

    def remaining(self) -> float:
        """Seconds until this lease ends unless it is renewed; 0 when it is lost."""
        if self._kept.reason is not None:
            return 0.0
        return max(0.0, self._kept.deadline - self._keeper.io.now())

    def check(self) -> None:
        """Raise `LeaseLost` unless the lease is still good. No network: the clock decides."""
        self._keeper.io.verify()
        self._notice()
        if self._kept.reason is not None:
            raise self._lost(self._kept.reason)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} on {self.name!r}: {self.state.value}, fence {self.fence}>"

    def _notice(self) -> None:
        kept = self._kept
        if kept.reason is None and self._keeper.io.now() >= kept.deadline:
            self._keeper.lose(kept, EXPIRED)

    def _lost(self, reason: str) -> LeaseLost:
        message = (
            f"{self.name!r} was already released"
            if reason is RELEASED
            else f"the lease on {self.name!r} (fence {self.fence}) is lost: {reason}. "
            "Someone else may hold it now: stop, and don't write"
        )
        return LeaseLost(message, name=self.name, reason=reason)

    async def _renew(self, ttl: float | None) -> None:
        self.check()
        keeper, kept = self._keeper, self._kept
        before = kept.ticket.ttl
        if ttl is not None:
            keeper.change(kept, keeper.engine.traits.check_ttl(ttl))
        sent = keeper.io.now()
        try:
            (standing,) = await keeper.engine.renew([kept.ticket], timeout=REQUEST_TIMEOUT)
        except EngineError as error:
            if error.outcome == "not applied" and ttl is not None:
                keeper.change(kept, before)  # the engine may never take the other one
            raise
        if standing is None:
            raise EngineError(
                f"could not renew {self.name!r}: its part of the engine did not answer",
                outcome="unknown",
                name=self.name,
            )
        reason = kept.learn(standing, sent, keeper.io.now())
        if reason is not None:
            keeper.lose(kept, reason)
        self.check()

    async def _downgrade(self) -> None:
        kept = self._kept
        if not self._keeper.engine.traits.supports_sharing:
            raise Unsupported(NO_SHARING, name=self.name)
        if kept.ticket.share.group:
            raise ValueError(
                f"the lease on {self.name!r} shares it already: only a writer turns reader"
            )
        await self._enter_again(kept.ticket._replace(share=READING))

    async def _enter_again(self, ticket: Ticket) -> None:
        """Change what the engine knows of this ticket: entering again is how that is done."""
        self.check()
        keeper, kept = self._keeper, self._kept
        sent = keeper.io.now()
        kept.unanswered += 1  # should it be gone, it joins anew
        try:
            standing = await keeper.engine.enter(ticket, if_free=False, timeout=REQUEST_TIMEOUT)
        except EngineError as error:
            kept.unanswered -= error.outcome == "not applied"
            raise
        kept.unanswered -= 1
        keeper.engine.unpark(ticket)
        reason = kept.learn(standing, sent, keeper.io.now())
        if reason is not None:
            keeper.lose(kept, reason)
        else:
            keeper.turn(kept, ticket)
        self.check()

    async def _release(self) -> None:
        keeper, kept = self._keeper, self._kept
        keeper.io.verify()
        if self._left:
            return
        try:
            self._left = _LEAVING
            if kept.depth > 1:  # a re-entered lease ends with its outermost release
                # No call in between: so no signal can come in between.
                kept.depth -= 1
                self._left = _LEFT
                return
            now = keeper.io.now()
            if now >= kept.deadline and kept.reason is None:
                keeper.lose(kept, EXPIRED)
            if kept.reason is not None:
                raise self._lost(kept.reason)
            keeper.forget(kept)  # first: a renewal after the release would be a lie
            try:
                there = await keeper.engine.leave(kept.ticket, timeout=REQUEST_TIMEOUT)
            except EngineError as error:
                there = await self._leave_again(error, now + REQUEST_TIMEOUT)
            if not there:
                keeper.lose(kept, EVICTED)
                raise self._lost(EVICTED)
            # Another thread may have noticed in this very moment that it is late.
            if kept.reason is None:
                kept.reason = RELEASED
            if kept.unanswered:
                keeper.sweeper.doom(kept)  # a request to join the queue may still come, after this
        except LeaseLost:
            raise
        except BaseException:  # the engine failed, or we were cancelled or interrupted
            self._give_up()
            raise

    def _give_up(self) -> None:
        if self._left == _LEFT:
            return
        if self._kept.depth == 1:
            self._keeper.give_up(self._kept, RELEASED)
        else:
            self._kept.depth -= 1
            self._left = _LEFT

    def _is_lost(self) -> bool:
        """Whether the lease is lost, by this very moment's clock."""
        self._notice()
        return self._kept.reason not in (None, RELEASED)

    def _loss(self) -> LeaseLost | None:
        return self._lost(self._kept.reason or EXPIRED) if self._is_lost() else None

    def _on_loss(self, callback: Callable[[], Any]) -> None:
        self._keeper.on_loss(self._kept, callback)

    async def _leave_again(self, first: EngineError, until: float) -> bool:
        # Once more, unless it hung: if the first request did arrive, the ticket is not there any
        # more, and it was ours until then, for the deadline had not passed.
        left = until - self._keeper.io.now()
        if left <= 0:
            raise first
        try:
            there = await self._keeper.engine.leave(self._kept.ticket, timeout=left)
        except EngineError as second:
            if first.outcome == "unknown":
                second.outcome = "unknown"
            raise
        return there or first.outcome == "unknown"


class Lost:
    """Set when the lease is lost. Like `threading.Event`, to look at and to wait for."""

    def __init__(self, lease: BaseLease) -> None:
        self._lease = lease
        self._event = lease._keeper.event_of(lease._kept)

    def is_set(self) -> bool:
        """Whether the lease is lost, by this very moment's clock."""
        return self._lease._is_lost()

    def __bool__(self) -> bool:
        """The same, for `if lease.lost:`."""
        return self.is_set()

    def wait(self, timeout: float | None = None) -> bool:
        """Block until the lease is lost (True) or the timeout has passed (False)."""
        return run(self._event.wait(timeout))


class AsyncLost(Lost):
    """Set when the lease is lost. Like `asyncio.Event`, to look at and to wait for."""

    async def wait(self, timeout: float | None = None) -> bool:  # type: ignore[override]
        """Wait until the lease is lost (True) or the timeout has passed (False)."""
        return await self._event.wait(timeout)


class Lease(BaseLease, BlockingHolding):
    """Proof of holding a lock until a deadline, renewed in the background until released."""

    __slots__ = ()

    @property
    def lost(self) -> Lost:
        """An event that is set when the lease is lost."""
        return Lost(self)

    def renew(self, ttl: float | None = None) -> None:
        """Renew now, if asked with another ttl from now on; raises `LeaseLost` if it is too late."""
        run(self._renew(ttl))

    def downgrade(self) -> None:
        """Turn a write lease into a read lease: other readers come in, and no writer in between."""
        run(self._downgrade())

    def release(self) -> None:
        """Give the lock back. `LeaseLost` if it was lost before; a second release does nothing."""
        try:
            run(self._release())
        except BaseException:
            self._give_up()
            raise


class AsyncLease(BaseLease, AsyncHolding):
    """Proof of holding a lock until a deadline, renewed in the background until released."""

    __slots__ = ("_canceller", "_cancels")

    def __init__(self, keeper: Keeper, kept: Kept) -> None:
        self._keeper = keeper
        self._kept = kept
        self._left = 0
        self._cancels = False
        self._canceller = None

    @property
    def lost(self) -> AsyncLost:
        """An event that is set when the lease is lost."""
        return AsyncLost(self)

    async def renew(self, ttl: float | None = None) -> None:
        """Renew now, if asked with another ttl from now on; raises `LeaseLost` if it is too late."""
        await self._renew(ttl)

    async def downgrade(self) -> None:
        """Turn a write lease into a read lease: other readers come in, and no writer in between."""
        await self._downgrade()

    async def release(self) -> None:
        """Give the lock back. `LeaseLost` if it was lost before; a second release does nothing."""
        await self._release()
