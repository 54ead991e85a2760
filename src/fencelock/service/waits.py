"""The requests that wait for a lock at this replica, while their clients keep the connection open."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import NamedTuple

from msgspec.structs import replace

from fencelock.core.errors import EngineError
from fencelock.core.ticket import Place
from fencelock.engines.http.wire import Enter, Renew, WireStanding
from fencelock.service.acts import Acts
from fencelock.service.principals import Principal

TIMEOUT = 5.0
"""Seconds in which the engine must answer."""

KEEP = 10.0
"""Seconds for which a ticket stays in the queue without an open request, at most. So a client can ask again
and keep its place, and a client that is gone keeps a lock from the others for no longer than that."""


class Confirmed(NamedTuple):
    """A ticket that holds."""

    standing: WireStanding
    sent: float
    """When the engine was asked. Its ttl counts from then, to be safe."""


class Waits:
    """At most one waiting request for each ticket: a newer one with the same key takes its place."""

    def __init__(self, acts: Acts) -> None:
        self._acts = acts
        self._open: dict[str, _Wait] = {}
        self._ending = False

    async def obtain(
        self, act: Enter, wait: float, principal: Principal, is_open: Callable[[], bool]
    ) -> Confirmed | None:
        """Wait until the ticket of this act holds, for `wait` seconds. None: it is still in the queue.

        While it waits, its ttl is short, and only an open request renews it. When it is admitted, it gets its
        own ttl.
        """
        (ticket,) = act.tickets
        await self.call_off(ticket.id)
        waiting = self._open[ticket.id] = _Wait(
            self._acts, act, principal, lambda: is_open() and not self._ending
        )
        try:
            return await waiting.until(self._acts.io.now() + wait)
        finally:
            if self._open.get(ticket.id) is waiting:
                del self._open[ticket.id]
            waiting.ended.set()

    async def call_off(self, id: str) -> None:
        """Let the waiting request of this ticket answer now. Its place in the queue stays."""
        waiting = self._open.get(id)
        if waiting is not None:
            waiting.call_off()
            await waiting.ended.wait()

    async def end(self) -> None:
        """The replica is about to end: let all clients ask elsewhere."""
        self._ending = True
        for id in list(self._open):
            await self.call_off(id)


class _Wait:
    """One waiting request."""

    def __init__(
        self, acts: Acts, act: Enter, principal: Principal, is_wanted: Callable[[], bool]
    ) -> None:
        self.ended = asyncio.Event()
        (self._ticket,) = act.tickets
        self._queued = replace(self._ticket, ttl=min(self._ticket.ttl, KEEP))
        self._enter = replace(act, tickets=[self._queued])
        self._acts = acts
        self._principal = principal
        self._is_wanted = is_wanted
        self._parking: asyncio.Task[WireStanding | None] | None = None
        self._called_off = False

    def call_off(self) -> None:
        self._called_off = True
        if self._parking is not None:
            self._parking.cancel()

    async def until(self, limit: float) -> Confirmed | None:
        """Wait until this moment of the io's clock."""
        standing = await self._ask(self._enter)
        try:
            while self._goes_on():
                if _holds(standing):
                    confirmed = await self._confirm()
                    if confirmed is not None:
                        return confirmed
                else:
                    left = limit - self._acts.io.now()
                    if left <= 0:
                        break
                    standing = await self._park(left, standing)
                    if _holds(standing):
                        continue
                if self._goes_on():  # nobody renews the ticket of a client that is gone
                    standing = await self._ask(self._enter)
        except EngineError as error:
            error.outcome = "unknown"  # perhaps not applied, but an earlier request was
            raise
        finally:
            self._acts.engine.unpark(self._queued.unpack())
        return None

    def _goes_on(self) -> bool:
        return not self._called_off and self._is_wanted()

    async def _confirm(self) -> Confirmed | None:
        """Give an admitted ticket its own ttl. None if it has ended already."""
        sent = self._acts.io.now()
        standing = await self._ask(Renew([self._ticket], TIMEOUT))
        if standing is None:
            raise EngineError(
                "the engine did not answer", outcome="unknown", name=self._ticket.name
            )
        return Confirmed(standing, sent) if standing.place is Place.ADMITTED else None

    async def _park(self, left: float, standing: WireStanding | None) -> WireStanding | None:
        """Sleep until the wake-up. A lost one costs a third of the ttl at most."""
        recheck = None if standing is None else standing.recheck
        pause = min(left, self._queued.ttl / 3, left if recheck is None else recheck)
        self._parking = asyncio.create_task(
            self._acts.park(self._queued.unpack(), max(pause, 0.01))
        )
        try:
            await asyncio.wait([self._parking])
        finally:
            self._parking.cancel()
            await asyncio.wait([self._parking])
        return None if self._parking.cancelled() else self._parking.result()

    async def _ask(self, act: Enter | Renew) -> WireStanding | None:
        (standing,) = (await self._acts.perform(act, self._principal)).standings or [None]
        return standing


def _holds(standing: WireStanding | None) -> bool:
    return standing is not None and standing.place is Place.ADMITTED
