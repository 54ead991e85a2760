"""The memory engine, with requests that fail when a test wants it."""

from __future__ import annotations

from collections import deque
from collections.abc import Coroutine, Sequence
from typing import Any, Literal, NamedTuple, TypeVar, get_args

from fencelock.core.errors import EngineError
from fencelock.core.ticket import Departure, Inspection, Standing, Ticket
from fencelock.engines.memory import MemoryEngine, MemoryStore
from fencelock.testing.clock import ENDLESS, HOPELESS
from fencelock.testing.io import ClockedIO

T = TypeVar("T")

Operation = Literal["enter", "renew", "leave", "inspect", "names", "evict", "remember", "recall"]
"""A request to the engine. To acquire is to enter, to release is to leave, to break a lock is to evict. The
background renews. `once` remembers and recalls."""

Outcome = Literal["not applied", "unknown"]


class _Failure(NamedTuple):
    outcome: Outcome
    applied: bool


class Faults:
    """What goes wrong on purpose, for all contexts of a client."""

    def __init__(self) -> None:
        self._planned: dict[str, deque[_Failure]] = {}
        self.silent: set[str] = set()
        """Tickets of holders that the engine does not hear of, by id."""

    def plan(self, operation: Operation, outcome: Outcome, *, applied: bool, times: int) -> None:
        """Let the next requests of this kind fail."""
        if operation not in get_args(Operation):
            known = ", ".join(get_args(Operation))
            raise ValueError(f"there is no operation {operation!r}: the operations are {known}")
        if outcome not in get_args(Outcome):
            raise ValueError(f"the outcome must be 'not applied' or 'unknown', not {outcome!r}")
        if applied and outcome == "not applied":
            raise ValueError("a request with the outcome 'not applied' can't have been applied")
        if type(times) is not int or times < 1:
            raise ValueError(f"times must be a whole number, one or more, not {times!r}")
        planned = self._planned.setdefault(operation, deque())
        planned.extend([_Failure(outcome, applied)] * times)

    def next(self, operation: Operation) -> _Failure | None:
        """How this request fails. None if it does not."""
        planned = self._planned.get(operation)
        return planned.popleft() if planned else None


class TestingEngine(MemoryEngine):
    """Clients share nothing: each testing client has its own store."""

    __test__ = False  # pytest: this is no test, in spite of its name

    def __init__(self, store: MemoryStore, io: ClockedIO, faults: Faults) -> None:
        super().__init__(store, io)
        self._timeline = io.timeline
        self._faults = faults
        self._looks: dict[str, int] = {}
        """How often each waiting ticket was parked in vain, by id."""

    async def _request(self, operation: Operation, request: Coroutine[Any, Any, T]) -> T:
        self._timeline.settle()  # what the background has to do comes first
        failure = self._faults.next(operation)
        if failure is None:
            return await request
        if failure.applied:
            await request
        request.close()
        raise EngineError(f"the test let this request fail: {operation}", outcome=failure.outcome)

    async def enter(self, ticket: Ticket, *, if_free: bool, timeout: float) -> Standing:
        request = super().enter(ticket, if_free=if_free, timeout=timeout)
        return await self._request("enter", request)

    async def renew(self, tickets: Sequence[Ticket], *, timeout: float) -> list[Standing | None]:
        silent = self._faults.silent
        heard = [ticket for ticket in tickets if ticket.id not in silent]
        standings = iter(await self._request("renew", super().renew(heard, timeout=timeout)))
        return [None if ticket.id in silent else next(standings) for ticket in tickets]

    async def leave(
        self, ticket: Ticket, *, timeout: float, departure: Departure = Departure.RELEASED
    ) -> bool:
        if ticket.id in self._faults.silent:
            raise EngineError("the test lets this ticket expire", outcome="not applied")
        request = super().leave(ticket, timeout=timeout, departure=departure)
        return await self._request("leave", request)

    async def park(self, ticket: Ticket, until: float) -> Standing | None:
        looks = self._looks[ticket.id] = self._looks.get(ticket.id, 0) + 1
        if looks > HOPELESS:
            raise AssertionError(f"waiting for {ticket.name!r} would never end: {ENDLESS}")
        return await super().park(ticket, until)

    def unpark(self, ticket: Ticket) -> None:
        self._looks.pop(ticket.id, None)
        super().unpark(ticket)

    async def remember(self, ticket: Ticket, text: str, *, keep: float, timeout: float) -> bool:
        request = super().remember(ticket, text, keep=keep, timeout=timeout)
        return await self._request("remember", request)

    async def recall(self, name: str, *, timeout: float) -> str | None:
        return await self._request("recall", super().recall(name, timeout=timeout))

    async def inspect(self, name: str, *, limit: int, timeout: float) -> Inspection:
        request = super().inspect(name, limit=limit, timeout=timeout)
        return await self._request("inspect", request)

    async def names(self, pattern: str, *, timeout: float) -> list[str]:
        return await self._request("names", super().names(pattern, timeout=timeout))

    async def evict(self, name: str, *, timeout: float) -> bool:
        return await self._request("evict", super().evict(name, timeout=timeout))
