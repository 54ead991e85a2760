"""Wake-ups by NOTIFY.

Behind a pooler in transaction mode nobody can listen: then one request asks for all who wait, again and
again.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Awaitable, Callable

from fencelock.core.backoff import Backoff
from fencelock.engines.postgresql.calls import Call, RowCalls
from fencelock.engines.postgresql.server import Server
from fencelock.engines.postgresql.wire import Wire
from fencelock.engines.sql import ears
from fencelock.io.contract import IO, Event

log = logging.getLogger("fencelock")

_TEST = 1.0
"""Seconds after which a notification that was sent as a test does not arrive any more."""

Ask = Callable[[Call, float], Awaitable[list[str]]]


class Ears(ears.Ears[Wire]):
    """Listens, or asks where that is of no use."""

    def __init__(self, server: Server, calls: RowCalls, ask: Ask, io: IO) -> None:
        super().__init__(io)
        self._server = server
        self._calls = calls
        self._ask = ask
        self._deaf = False
        self.channel = _new_channel()

    async def _opened(self, deadline: float) -> Wire | None:
        if self._deaf:
            return None
        wire = await self._server.connect(deadline - self._io.now())
        try:
            if not self._server.pooled or await self._hears(wire, deadline):
                await wire.script(f"LISTEN {self.channel}", deadline - self._io.now())
                return wire
        except BaseException:
            wire.close()
            raise
        wire.close()
        self._deaf, self.channel = True, ""
        log.warning(
            "a connection pooler in transaction mode is in the way of LISTEN: waiting for locks "
            "goes by polling, which is slower; connect to the server itself to be woken"
        )
        return None

    async def _hears(self, wire: Wire, deadline: float) -> bool:
        """Whether a session stays the same between two requests, as LISTEN needs it."""
        channel = _new_channel()
        await wire.script(f"LISTEN {channel}", deadline - self._io.now())
        await self._ask(self._calls.notify(channel, "test"), deadline - self._io.now())
        heard = await wire.notifications(min(_TEST, deadline - self._io.now()))
        return bool(heard)

    async def _listen(self, wire: Wire | None, alarm: Event) -> None:
        if wire is None:
            await self._poll(alarm)
            return
        while True:
            for payload in await wire.notifications(self.IDLE):
                self._deliver(payload)
            if self._retire():
                return

    async def _poll(self, alarm: Event) -> None:
        """One request for all who wait, in growing pauses as long as there is no news."""
        backoff = Backoff(0.02, 0.25, self._io.random)
        idle_since = self._io.now()
        known: set[str] = set()
        while not await alarm.wait(backoff.next()):
            tickets = self._waiting()
            ids = {ticket.id for ticket in tickets}
            if not ids <= known:
                backoff.reset()
            known = ids
            if tickets:
                idle_since = self._io.now()
                for payload in await self._ask(self._calls.admitted(tickets), _TEST):
                    self._deliver(payload)
                    backoff.reset()
            elif self._io.now() - idle_since >= self.IDLE and self._retire():
                return


def _new_channel() -> str:
    return "fencelock_" + os.urandom(8).hex()
