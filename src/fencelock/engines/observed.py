"""An engine whose requests are timed for observers. A program without observers does not use it."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from typing import Any, TypeVar

from fencelock.core.errors import EngineError, Unsupported
from fencelock.core.ticket import Departure, Inspection, Standing, Ticket
from fencelock.engines.contract import Engine, Traits
from fencelock.observe.audience import Audience
from fencelock.observe.events import EngineRequest, RequestOutcome

T = TypeVar("T")


class ObservedEngine(Engine):
    """Passes each request on, and tells the observers how it ended and how long it took."""

    def __init__(self, engine: Engine, audience: Audience, now: Callable[[], float]) -> None:
        self._engine = engine
        self._tell = audience.teller(EngineRequest)
        self._now = now
        self.label = engine.label

    @property
    def traits(self) -> Traits:  # type: ignore[override]  # of an engine that may learn them later
        """The traits of the engine itself."""
        return self._engine.traits

    async def _timed(self, operation: str, request: Coroutine[Any, Any, T]) -> T:
        started = self._now()
        try:
            answer = await request
        except BaseException as error:
            self._failed(operation, error, started)
            raise
        self._tell(EngineRequest, (self.label, operation, "ok", self._now() - started))
        return answer

    def _failed(self, operation: str, error: BaseException, started: float) -> None:
        outcome: RequestOutcome = "cancelled"
        if isinstance(error, EngineError):
            outcome = error.outcome
        elif isinstance(error, Unsupported):
            outcome = "not applied"
        self._tell(EngineRequest, (self.label, operation, outcome, self._now() - started))

    # The two requests of every lock do by themselves what `_timed` does: a coroutine less for each.

    async def enter(self, ticket: Ticket, *, if_free: bool, timeout: float) -> Standing:
        started = self._now()
        try:
            standing = await self._engine.enter(ticket, if_free=if_free, timeout=timeout)
        except BaseException as error:
            self._failed("enter", error, started)
            raise
        self._tell(EngineRequest, (self.label, "enter", "ok", self._now() - started))
        return standing

    async def leave(
        self, ticket: Ticket, *, timeout: float, departure: Departure = Departure.RELEASED
    ) -> bool:
        started = self._now()
        try:
            there = await self._engine.leave(ticket, timeout=timeout, departure=departure)
        except BaseException as error:
            self._failed("leave", error, started)
            raise
        self._tell(EngineRequest, (self.label, "leave", "ok", self._now() - started))
        return there

    # The others return the coroutine that an `async def` would make.

    def enter_free(
        self, tickets: Sequence[Ticket], *, timeout: float
    ) -> Coroutine[Any, Any, list[Standing]]:
        return self._timed("enter", self._engine.enter_free(tickets, timeout=timeout))

    def leave_all(
        self, tickets: Sequence[Ticket], *, timeout: float
    ) -> Coroutine[Any, Any, list[bool]]:
        return self._timed("leave", self._engine.leave_all(tickets, timeout=timeout))

    def renew(
        self, tickets: Sequence[Ticket], *, timeout: float
    ) -> Coroutine[Any, Any, list[Standing | None]]:
        return self._timed("renew", self._engine.renew(tickets, timeout=timeout))

    def remember(
        self, ticket: Ticket, text: str, *, keep: float, timeout: float
    ) -> Coroutine[Any, Any, bool]:
        request = self._engine.remember(ticket, text, keep=keep, timeout=timeout)
        return self._timed("remember", request)

    def recall(self, name: str, *, timeout: float) -> Coroutine[Any, Any, str | None]:
        return self._timed("recall", self._engine.recall(name, timeout=timeout))

    def inspect(self, name: str, *, limit: int, timeout: float) -> Coroutine[Any, Any, Inspection]:
        return self._timed("inspect", self._engine.inspect(name, limit=limit, timeout=timeout))

    def names(self, pattern: str, *, timeout: float) -> Coroutine[Any, Any, list[str]]:
        return self._timed("names", self._engine.names(pattern, timeout=timeout))

    def ping(self, *, timeout: float) -> Coroutine[Any, Any, None]:
        return self._timed("ping", self._engine.ping(timeout=timeout))

    def evict(self, name: str, *, timeout: float) -> Coroutine[Any, Any, bool]:
        return self._timed("evict", self._engine.evict(name, timeout=timeout))

    # Not timed: to park is to wait for another holder.

    def park(self, ticket: Ticket, until: float) -> Coroutine[Any, Any, Standing | None]:
        return self._engine.park(ticket, until)

    def unpark(self, ticket: Ticket) -> None:
        self._engine.unpark(ticket)

    def interrupt(self, ticket: Ticket) -> None:
        self._engine.interrupt(ticket)

    def close(self) -> Coroutine[Any, Any, None]:
        return self._engine.close()

    def abandon(self) -> None:
        self._engine.abandon()
